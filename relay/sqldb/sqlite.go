package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	_ "github.com/ncruces/go-sqlite3/driver" // registers "sqlite3"
)

const (
	defaultDriver  = "sqlite3"
	fallbackDriver = "sqlite"
	defaultReaders = 4

	// maxBatch bounds the updates of one transaction, and with it the longest
	// wait of its first one.
	maxBatch = 512
)

// sqlite is an open file.
type sqlite struct {
	path   string
	dsn    string
	driver string
	log    *slog.Logger

	write *sql.DB // one connection, owned by the writer goroutine
	read  *sql.DB

	// readers holds every read connection that nobody uses.
	readers chan *conn

	// requests is the queue of the writer. It is never closed: closing tells.
	requests chan *request
	closing  chan struct{} // closed when no further update is taken
	stopped  chan struct{} // closed when the writer has returned

	// mu is held for reading while an update takes its place in the queue, and for
	// writing while closed is set and closing is closed.
	mu     sync.RWMutex
	closed bool

	cause    atomic.Pointer[error] // why it is broken; set once, by the writer
	lost     chan struct{}         // closed after cause is set
	dirty    chan struct{}         // wakes the checkpointer
	finished sync.WaitGroup
}

// openSQLite opens or makes the database at o.Path and starts its writer.
func openSQLite(ctx context.Context, o Options) (*sqlite, error) {
	if o.Driver == "" {
		o.Driver = defaultDriver
	}
	if o.Readers <= 0 {
		o.Readers = defaultReaders
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sqldb: %w", err)
	}
	if err := makeFile(path); err != nil {
		return nil, fmt.Errorf("sqldb: %w", err)
	}
	source := dsn(path)
	if o.Driver != fallbackDriver {
		if err := registerVFS(); err != nil {
			return nil, fmt.Errorf("sqldb: %w", err)
		}
		source += "&vfs=" + roomVFSName
	}
	db := &sqlite{
		path: path, driver: o.Driver, dsn: source, log: o.Logger,
		readers:  make(chan *conn, o.Readers),
		requests: make(chan *request, maxBatch),
		closing:  make(chan struct{}), stopped: make(chan struct{}),
		dirty: make(chan struct{}, 1), lost: make(chan struct{}),
	}
	w, err := db.connect(ctx, o.Readers)
	if err != nil {
		return nil, fmt.Errorf("sqldb: open %s: %w", path, err)
	}
	if err := narrow(path, path+"-wal", path+"-shm"); err != nil {
		return nil, errors.Join(fmt.Errorf("sqldb: %w", err), w.close(), db.closePools())
	}
	db.finished.Add(2)
	go db.runWriter(w)
	go db.runCheckpointer()
	return db, nil
}

// connect opens both pools and the writer's connection; it leaves nothing open
// when it fails.
func (db *sqlite) connect(ctx context.Context, readers int) (w *conn, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, db.closePools())
		}
	}()
	if db.write, err = sql.Open(db.driver, db.dsn); err != nil {
		return nil, err
	}
	if db.read, err = sql.Open(db.driver, db.dsn+"&_pragma=query_only(1)"); err != nil {
		return nil, err
	}
	db.write.SetMaxOpenConns(1)
	db.read.SetMaxOpenConns(readers + 1) // one is the checkpointer's
	db.read.SetMaxIdleConns(readers + 1)
	w = &conn{pool: db.write}
	if err = w.open(ctx); err != nil {
		return nil, err
	}
	// An empty transaction proves that the file can be read and written, and makes
	// the files beside it.
	for _, q := range []string{"BEGIN IMMEDIATE", "ROLLBACK"} {
		if err = w.run(ctx, q); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	for range readers {
		db.readers <- &conn{pool: db.read}
	}
	return w, nil
}

func (db *sqlite) closePools() error {
	var errs []error
	for _, pool := range []*sql.DB{db.read, db.write} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	return errors.Join(errs...)
}

func (db *sqlite) name() string { return db.path }

func (db *sqlite) dialect() Dialect { return SQLite }

func (db *sqlite) waiting() int { return len(db.requests) }

func (db *sqlite) broken() <-chan struct{} { return db.lost }

// close lets the queue run empty.
func (db *sqlite) close() error {
	db.mu.Lock()
	first := !db.closed
	db.closed = true
	if first {
		close(db.closing)
	}
	db.mu.Unlock()
	db.finished.Wait()
	if !first {
		return nil
	}
	var errs []error
	for range cap(db.readers) {
		r := <-db.readers
		errs = append(errs, r.close())
	}
	errs = append(errs, db.closePools())
	return errors.Join(errs...)
}

// dsn is understood by both SQLite drivers. busy_timeout comes first: it must
// hold for the statements after it.
func dsn(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	return "file:" + u.EscapedPath() + "?_txlock=immediate" +
		"&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)" +
		"&_pragma=foreign_keys(1)&_pragma=wal_autocheckpoint(10000)" +
		"&_pragma=journal_size_limit(67108864)&_pragma=temp_store(memory)"
}

// makeFile makes the database file, if it is missing, before the driver does.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// narrow takes the files from other users: not every driver gives the log the
// mode of the database. It works by name, since closing a descriptor of a file
// that SQLite has open would drop SQLite's locks on it.
func narrow(paths ...string) error {
	for _, p := range paths {
		if err := os.Chmod(p, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// verifySQLite checks on a fresh connection what durability rests on: a driver's
// default, or a setting that silently did not take, must not weaken it.
func verifySQLite(ctx context.Context, c *sql.Conn) error {
	for _, p := range []struct{ pragma, want string }{
		{"journal_mode", "wal"},
		{"synchronous", "2"},
		{"foreign_keys", "1"},
		{"busy_timeout", "5000"},
	} {
		var got string
		if err := c.QueryRowContext(ctx, "PRAGMA "+p.pragma).Scan(&got); err != nil {
			return fmt.Errorf("read %s: %w", p.pragma, err)
		}
		if got != p.want {
			return fmt.Errorf("%s is %q, need %q", p.pragma, got, p.want)
		}
	}
	return nil
}

// own takes nothing; see DB.Own.
func (db *sqlite) own(context.Context, string) (*Ownership, error) {
	return &Ownership{lost: make(chan struct{}), release: func() {}}, nil
}
