// Package gatewaysql is the gateway's store in SQL. It owns the one database of
// the account side: 0001_accounts.sql holds who may do what, 0002_chat.sql the
// threads, their event logs, the queue and the turns.
//
// The state machines are not here: a method does what its name says to rows, in
// the transaction of its caller, and the schema refuses what must never be (two
// turns at once in a thread, a turn without an input, an event twice). There is
// one set of queries and of migrations for SQLite and PostgreSQL. What orders
// transactions are the explicit locks of locks.go, taken in the order org,
// thread, turn, waiting message, and last the head of an account's feed: row locks
// on PostgreSQL, nothing on SQLite, whose single writer runs one after the other.
// Moments are stored as integer milliseconds.
package gatewaysql

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/fairlead/fairlead/relay/sqldb"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options say how the store is opened: URL or Path.
type Options struct {
	// URL is that of a PostgreSQL database; see sqldb.Options.
	URL string
	// Path is an SQLite file; it is made if it is missing.
	Path string
	// Driver is that of sqldb.Options; "" means the default.
	Driver string
	// Logger gets what no caller can be told; nil discards it.
	Logger *slog.Logger
}

// Store is the open database. Its methods are safe for concurrent use.
type Store struct {
	db *sqldb.DB
}

// Open opens the database and migrates it; an SQLite file is made if it is
// missing. A database that is not such a one, or is of a newer program, stays as
// it is. Error: storage_unavailable, with what to do next and without a password.
func Open(ctx context.Context, o Options) (*Store, error) {
	db, err := sqldb.Open(ctx, sqldb.Options{URL: o.URL, Path: o.Path, Driver: o.Driver, Logger: o.Logger})
	if err != nil {
		return nil, refused(o, err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err == nil {
		err = db.Migrate(ctx, files)
	}
	if err != nil {
		return nil, errors.Join(refused(o, err), db.Close())
	}
	return &Store{db: db}, nil
}

// Close lets queued writes finish and closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Broken is closed once nobody can know whether a write was kept: the store takes
// no other until it is opened again.
func (s *Store) Broken() <-chan struct{} { return s.db.Broken() }

// Waiting is the number of updates that have not begun, since others are before
// them.
func (s *Store) Waiting() int { return s.db.Waiting() }
