// Package gatewaysql is the gateway's store in SQL. It owns the one database of
// the account side: 0001_accounts.sql holds who may do what, 0002_chat.sql the
// threads, their event logs, the queue and the turns.
//
// All writing goes through the single writer of relay/sqldb. The state machines
// are not here: a method does what its name says to rows, in the transaction of
// its caller, and the schema refuses what must never be (two turns at once in a
// thread, a turn without an input, an event twice). There is one set of queries:
// they avoid what SQLite alone understands, so that another dialect can run them.
// Moments are stored as integer milliseconds.
package gatewaysql

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options say how the store is opened.
type Options struct {
	// Path is the database file; it is made if it is missing.
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

// Open opens the database, makes it if it is missing and migrates it. A file that
// is not such a database, or is of a newer program, stays as it is. Error:
// storage_unavailable, with what to do next.
func Open(ctx context.Context, o Options) (*Store, error) {
	db, err := sqldb.Open(ctx, sqldb.Options{Path: o.Path, Driver: o.Driver, Logger: o.Logger})
	if err != nil {
		return nil, refused(o.Path, err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err == nil {
		err = db.Migrate(ctx, files)
	}
	if err != nil {
		return nil, errors.Join(refused(o.Path, err), db.Close())
	}
	return &Store{db: db}, nil
}

func refused(path string, cause error) error {
	advice := " cannot be used as the gateway's store. It was left as it is: put a backup in its place, or start with another data_dir."
	if errors.Is(cause, sqldb.ErrSchemaNewer) {
		advice = " was written by a newer version of the program. It was left as it is: use that version, or start with another data_dir."
	}
	return wire.WrapError(wire.CodeStorageUnavailable, path+advice, cause)
}

// Close lets queued writes finish and closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Broken is closed once nobody can know whether a write was kept: the store takes
// no other until it is opened again.
func (s *Store) Broken() <-chan struct{} { return s.db.Broken() }
