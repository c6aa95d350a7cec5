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
	// Owner is for the one gateway of a database: what it keeps in memory is right
	// for as long as no other changes what is stored. On PostgreSQL another one is
	// refused until this one closes the store or ends; see Lost. Commands that
	// change accounts need not own it.
	Owner bool
	// Logger gets what no caller can be told; nil discards it.
	Logger *slog.Logger
}

// Store is the open database. Its methods are safe for concurrent use.
type Store struct {
	db    *sqldb.DB
	owned *sqldb.Ownership // nil without Options.Owner
}

// Open opens the database and migrates it; an SQLite file is made if it is
// missing. A database that is not such a one, or is of a newer program, stays as
// it is. Error: storage_unavailable, with what to do next and without a password.
func Open(ctx context.Context, o Options) (*Store, error) {
	db, err := sqldb.Open(ctx, sqldb.Options{URL: o.URL, Path: o.Path, Driver: o.Driver, Logger: o.Logger})
	if err != nil {
		return nil, refused(o, err)
	}
	s := &Store{db: db}
	if err := s.prepare(ctx, o.Owner); err != nil {
		return nil, errors.Join(refused(o, err), s.Close())
	}
	return s, nil
}

// prepare makes the schema what this program expects, once nobody else is at work
// with another one.
func (s *Store) prepare(ctx context.Context, owner bool) (err error) {
	if owner {
		if s.owned, err = s.db.Own(ctx, "gateway"); err != nil {
			return err
		}
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.db.Migrate(ctx, files)
}

// Close lets queued writes finish, closes the database and gives it up.
func (s *Store) Close() error {
	err := s.db.Close()
	if s.owned != nil {
		s.owned.Release()
	}
	return err
}

// Lost is closed once another gateway owns the database: the connection that held
// it broke, and the other was faster. This one must end.
func (s *Store) Lost() <-chan struct{} {
	if s.owned == nil {
		return nil
	}
	return s.owned.Lost()
}

// Broken is closed once nobody can know whether a write was kept: the store takes
// no other until it is opened again.
func (s *Store) Broken() <-chan struct{} { return s.db.Broken() }

// Waiting is the number of updates that have not begun, since others are before
// them.
func (s *Store) Waiting() int { return s.db.Waiting() }
