// Package sqldb opens a database the way Fairlead uses one: updates that are
// durable when they return, snapshots to read from, numbered migrations, and error
// classes that do not depend on the driver. The database is an SQLite file or a
// schema of a PostgreSQL server; callers write one set of queries with "?"
// placeholders.
//
// # Writing to SQLite
//
// One goroutine owns the one connection that writes. Update queues a function to
// it. An idle writer runs the function and commits at once; what arrives while a
// commit is in flight is gathered and becomes the next transaction, so under load
// many updates share one sync to disk, and no timer ever delays one (natural
// group commit). The error of a function, or its panic, undoes only its own changes:
// a group in which one failed is rolled back and run once more, each function inside
// a savepoint of its own. Update returns once the group is durable (WAL,
// synchronous=FULL), never before.
//
// A commit that fails in a way that proves nothing was written is an ordinary
// error: the caller may try again. A commit whose outcome cannot be known is
// ErrIndeterminate, for its whole group and for every later update of this DB:
// the program must stop using it, open the file again and read what is true.
//
// # Writing to PostgreSQL
//
// Each function is a transaction of its own (READ COMMITTED, synchronous_commit
// on) on one connection of a bounded pool, in the goroutine that calls Update.
// Functions run side by side, so what must be ordered takes row locks. A function
// that the server breaks up (a deadlock, a serialisation failure, a lock that was
// not had in time), or whose connection is lost before its commit, is run again
// from its beginning, so it must not build on what an earlier run of it left
// behind; tries are few and lie apart by chance.
//
// A connection that is lost during a commit leaves the outcome open. The server
// is then asked for it by the number of the transaction: it was kept, and Update
// goes on; it was not, and the function runs again; or the server does not tell,
// which is ErrIndeterminate. That error stands for its own update alone: the next
// one finds out by itself whether the server is back. Its functions after commit
// were not run, so a caller reads again what it keeps in memory, and repeats only
// what does nothing the second time (a chat message carries a client event id).
//
// Functions after commit run in commit order among the updates that locked the
// same thing: see Tx.Sequence. Time limits of the session end what is stuck, in
// this order: a transaction whose program is silent, a wait for a lock, a
// statement. So those who wait outlast the one that is stuck, and nobody is told.
//
// # Reading
//
// View runs a function on one of a few connections that cannot write, inside one
// snapshot. Long views keep SQLite's write-ahead log from being reset and
// PostgreSQL from cleaning up, so they should read what they need and end.
//
// # Goroutines
//
// For SQLite Open starts two: the writer and the checkpointer, which moves the
// write-ahead log into the database file aside from commits. For PostgreSQL there
// are only those of database/sql. Close waits for all of them and for every call
// that has begun.
package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
)

// Dialect names the kind of a database.
type Dialect string

// The kinds of databases.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Options say how a database is opened: URL or Path.
type Options struct {
	// URL names a PostgreSQL database: postgres://user:password@host:port/name, or
	// postgresql:// alike. Its parameters are those of libpq; search_path names the
	// schema. What it leaves out comes from the PG… variables and ~/.pgpass.
	URL string
	// Path is an SQLite file; it is made with mode 0600 if it is missing, and
	// narrowed to that if it is wider.
	Path string
	// Driver is a registered database/sql driver for SQLite: "sqlite3" (the
	// default), or "sqlite" in tests that also run on the fallback.
	Driver string
	// Readers is the number of connections that View may use at once; 0 means 4 for
	// SQLite and 8 for PostgreSQL. They are opened when they are first needed.
	Readers int
	// Writers is the number of updates that may run at once on PostgreSQL; 0 means
	// 16. SQLite has one writer.
	Writers int
	// Logger gets what no caller can be told; nil discards it.
	Logger *slog.Logger
}

// engine is one kind of database.
type engine interface {
	name() string
	dialect() Dialect
	update(ctx context.Context, fn func(*Tx) error) error
	view(ctx context.Context, fn func(*Tx) error) error
	migrate(ctx context.Context, fsys fs.FS) error
	own(ctx context.Context, name string) (*Ownership, error)
	waiting() int
	broken() <-chan struct{}
	close() error
}

// DB is an open database. All methods are safe for concurrent use.
type DB struct {
	engine engine

	mu     sync.Mutex
	claims map[string]bool
}

// Open opens the database and starts what it needs. It fails if there is none
// that can be used, or if a connection does not keep the promises of this package
// (for SQLite WAL, synchronous=FULL and foreign keys; for PostgreSQL
// synchronous_commit and UTF-8). An SQLite file is made if it is missing. Nothing
// is changed in what is not trusted. Errors of PostgreSQL: ErrUnreachable,
// ErrUnsuitable, those of the server (see SQLState); none holds a password.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var e engine
	var err error
	switch {
	case o.URL != "":
		e, err = openPostgres(ctx, o)
	case o.Path != "":
		e, err = openSQLite(ctx, o)
	default:
		err = errors.New("sqldb: no path and no URL")
	}
	if err != nil {
		return nil, full(err)
	}
	return &DB{engine: e}, nil
}

// Path is the absolute path of an SQLite file, or the URL of a PostgreSQL
// database without its password.
func (db *DB) Path() string { return db.engine.name() }

// Dialect is the kind of the database.
func (db *DB) Dialect() Dialect { return db.engine.dialect() }

// Update runs fn in a transaction and returns once that is durable. fn must be
// quick, call no network, use only tx, and must not call Update; it may run several
// times, one after the other, and must not build on what an earlier run left behind.
// On SQLite it runs in the writer goroutine. An error of fn, or a panic, which becomes
// an error, undoes what fn did and nothing else.
//
// ctx is honoured while the update waits for its turn and between two runs of fn;
// once fn has begun, Update returns how it really ended. Errors: that of fn, as it
// is, but marked with ErrFull where the disk is full; ErrClosed; the cause of ctx;
// ErrIndeterminate; any other error, such as ErrFull, means that nothing was stored.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return full(db.engine.update(ctx, fn))
}

// View runs fn in one read snapshot. It waits for a free reader until ctx ends;
// ctx also ends the statements of fn that are given it. Errors of fn are
// returned as they are.
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error {
	return full(db.engine.view(ctx, fn))
}

// Migrate brings the schema up to the newest of the migrations NNNN_name.sql at
// the root of fsys, each in a transaction of its own. It is to be called before
// the first Update; programs that start together take turns. It changes nothing
// and fails with ErrSchemaNewer if the database has a migration that fsys has not,
// and with ErrForeign if it holds tables and never was migrated by this package.
func (db *DB) Migrate(ctx context.Context, fsys fs.FS) error {
	if err := db.engine.migrate(ctx, fsys); err != nil {
		return fmt.Errorf("sqldb: migrate %s: %w", db.Path(), full(err))
	}
	return nil
}

// Waiting is the number of updates whose function has not begun to run.
func (db *DB) Waiting() int { return db.engine.waiting() }

// Broken is closed once a commit to SQLite had an outcome that nobody can know:
// every update is refused with ErrIndeterminate from then on, until the database
// is opened again. A PostgreSQL database never is broken for good.
func (db *DB) Broken() <-chan struct{} { return db.engine.broken() }

// Close refuses further calls, lets what is queued and what is being read finish,
// and waits for it. Closing twice is allowed.
func (db *DB) Close() error {
	if err := db.engine.close(); err != nil {
		return fmt.Errorf("sqldb: close %s: %w", db.Path(), err)
	}
	return nil
}

// Claim makes the caller the one owner of a part of the database, named by name,
// among all users of this DB. It fails with ErrClaimed while somebody else is.
// Other programs that use the same database are not kept out.
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

// Own makes this program the one owner of a part of the database, named by name.
// On PostgreSQL other programs that ask for it are kept out, wherever they run,
// until Release or until the server has noticed the end of this one; it waits a few
// seconds for one that is about to end. An SQLite file is of one machine, whose
// programs keep each other out by the folder that it lies in: there nothing is
// taken. Errors: ErrClaimed, ErrUnreachable.
func (db *DB) Own(ctx context.Context, name string) (*Ownership, error) {
	o, err := db.engine.own(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("sqldb: own %s: %w", db.Path(), err)
	}
	return o, nil
}

// Ownership is what Own gives.
type Ownership struct {
	lost    chan struct{}
	release func()
}

// Lost is closed once another program owns it: while the server could not be
// reached, or had ended the connection, the other was faster. Whoever owned it must
// stop using it.
func (o *Ownership) Lost() <-chan struct{} { return o.lost }

// Release gives it up. It may be called again.
func (o *Ownership) Release() { o.release() }
