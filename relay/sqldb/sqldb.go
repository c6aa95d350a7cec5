// Package sqldb opens a database the way Fairlead uses one: a single writer that
// commits in groups, a small pool of readers, numbered migrations, and error
// classes that do not depend on the driver.
//
// # Writing
//
// One goroutine owns the one connection that writes. Update queues a function to
// it. An idle writer runs the function and commits at once; what arrives while a
// commit is in flight is gathered and becomes the next transaction, so under load
// many updates share one sync to disk, and no timer ever delays one (natural
// group commit). Each function of a group runs inside a savepoint of its own: its
// error, or its panic, undoes only its own changes. Update returns once the group
// is durable (WAL, synchronous=FULL), never before.
//
// A commit that fails in a way that proves nothing was written is an ordinary
// error: the caller may try again. A commit whose outcome cannot be known is
// ErrIndeterminate, for its whole group and for every later update of this DB:
// the program must stop using it, open the file again and read what is true.
//
// # Reading
//
// View runs a function on one of a few read-only connections, inside one
// snapshot. Long views keep the write-ahead log from being reset, so they should
// read what they need and end.
//
// # Goroutines
//
// Open starts two: the writer and the checkpointer, which moves the write-ahead
// log into the database file aside from commits. Close waits for both.
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
	defaultReaders = 4

	// maxBatch bounds the updates of one transaction, and with it the longest
	// wait of its first one.
	maxBatch = 512
)

// Options say how a database is opened.
type Options struct {
	// Path is the database file; it is made with mode 0600 if it is missing, and
	// narrowed to that if it is wider.
	Path string
	// Driver is a registered database/sql driver for SQLite: "sqlite3" (the
	// default), or "sqlite" in tests that also run on the fallback.
	Driver string
	// Readers is the number of connections that View may use at once; 0 means 4.
	// They are opened when they are first needed.
	Readers int
	// Logger gets what no caller can be told; nil discards it.
	Logger *slog.Logger
}

// DB is an open database. All methods are safe for concurrent use.
type DB struct {
	path    string
	dialect Dialect
	dsn     string
	driver  string
	log     *slog.Logger

	write *sql.DB // one connection, owned by the writer goroutine
	read  *sql.DB

	// readers holds every read connection that nobody uses.
	readers chan *conn

	// requests is the queue of the writer. It is never closed: closing tells.
	requests chan *request
	closing  chan struct{} // closed when no further update is taken
	stopped  chan struct{} // closed when the writer has returned

	// mu is held for reading while an update takes its place in the queue, and for
	// writing while closed is set and closing is closed, and for claims.
	mu     sync.RWMutex
	closed bool
	claims map[string]bool

	broken   atomic.Pointer[error] // set once, by the writer
	lost     chan struct{}         // closed after broken is set
	dirty    chan struct{}         // wakes the checkpointer
	finished sync.WaitGroup
}

// Open opens or makes the database at o.Path and starts its writer. It fails if
// the file is not a database, is not readable, or if the connection does not keep
// the promises of this package (WAL, synchronous=FULL, foreign keys). It changes
// nothing in a file that it does not trust.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Path == "" {
		return nil, errors.New("sqldb: no path")
	}
	if o.Driver == "" {
		o.Driver = defaultDriver
	}
	if o.Readers <= 0 {
		o.Readers = defaultReaders
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sqldb: %w", err)
	}
	if err := makeFile(path); err != nil {
		return nil, fmt.Errorf("sqldb: %w", err)
	}
	db := &DB{
		path: path, dialect: SQLite, driver: o.Driver, dsn: dsn(path), log: o.Logger,
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
func (db *DB) connect(ctx context.Context, readers int) (w *conn, err error) {
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
	w = &conn{pool: db.write, dialect: db.dialect}
	if err = w.open(ctx); err != nil {
		return nil, err
	}
	// An empty transaction proves that the file can be read and written, and makes
	// the files beside it.
	for _, q := range []string{"BEGIN IMMEDIATE", "ROLLBACK"} {
		if err = w.exec(ctx, q); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	for range readers {
		db.readers <- &conn{pool: db.read, dialect: db.dialect}
	}
	return w, nil
}

func (db *DB) closePools() error {
	var errs []error
	for _, pool := range []*sql.DB{db.read, db.write} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	return errors.Join(errs...)
}

// Path is the absolute path of the database file.
func (db *DB) Path() string { return db.path }

// Close refuses further calls, lets what is queued and what is being read finish,
// and waits for the writer. Closing twice is allowed.
func (db *DB) Close() error {
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
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sqldb: close %s: %w", db.path, err)
	}
	return nil
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

// Claim makes the caller the one owner of a part of the database, named by name,
// among all users of this DB. It fails with ErrClaimed while somebody else is.
func (db *DB) Claim(name string) (release func(), err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.claims[name] {
		return nil, fmt.Errorf("%w: %s", ErrClaimed, name)
	}
	if db.claims == nil {
		db.claims = make(map[string]bool)
	}
	db.claims[name] = true
	return sync.OnceFunc(func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		delete(db.claims, name)
	}), nil
}
