package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Migrate brings the schema up to the newest of the migrations NNNN_name.sql at
// the root of fsys, each in a transaction of its own. It fails with
// ErrSchemaNewer, changing nothing, if the database has a migration that fsys has
// not. It is to be called before the first Update.
func (db *DB) Migrate(ctx context.Context, fsys fs.FS) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sqldb: migrate %s: %w", db.path, err)
		}
	}()
	// A pool of its own: the writer keeps its one connection.
	pool, err := sql.Open(db.driver, db.dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	p, err := goose.NewProvider(goose.DialectSQLite3, pool, fsys,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(db.log))
	if err != nil {
		return err
	}
	current, newest, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > newest {
		return fmt.Errorf("%w (schema %d, this release knows %d): start the newer release, or restore a backup made by this one",
			ErrSchemaNewer, current, newest)
	}
	_, err = p.Up(ctx)
	return err
}
