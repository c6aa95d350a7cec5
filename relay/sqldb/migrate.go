package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"
)

const (
	// versionTable is the table of goose: it says which migrations a database has.
	versionTable = "goose_db_version"
	// migrationLock names the lock that programs take which start together.
	migrationLock = 0x666c6d67
	// migrationLimit bounds the wait for another program's migrations.
	migrationLimit = 5 * time.Minute
)

func (db *sqlite) migrate(ctx context.Context, fsys fs.FS) (err error) {
	// A pool of its own: the writer keeps its one connection.
	pool, err := sql.Open(db.driver, db.dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1)
	err = known(ctx, pool, `SELECT COUNT(*), COALESCE(SUM(name = '`+versionTable+`'), 0) FROM sqlite_master
		WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'`)
	if err != nil {
		return err
	}
	return migrate(ctx, goose.DialectSQLite3, pool, fsys, db.log)
}

// migrate lets programs that start together take turns: goose's own lock does not
// cover the making of its table.
func (p *postgres) migrate(ctx context.Context, fsys fs.FS) (err error) {
	ctx, cancel := context.WithTimeout(ctx, migrationLimit)
	defer cancel()
	// A pool of its own: migrations may take longer than a statement of an update.
	config := p.config.Copy()
	for _, limit := range []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"} {
		config.RuntimeParams[limit] = "0"
	}
	migrations := pool(config, 2)
	defer func() { err = errors.Join(err, migrations.Close()) }()
	s, err := session(ctx, migrations)
	if err != nil {
		return err
	}
	defer s.release()
	// Closing the pool ends the session, and the lock with it.
	if _, err := s.exec(ctx, "SELECT pg_advisory_lock(?, hashtext(current_schema()))", []any{migrationLock}); err != nil {
		return fmt.Errorf("wait for another program's migrations: %w", err)
	}
	// Tables of extensions belong to nobody here.
	err = known(ctx, migrations, `SELECT COUNT(*), COUNT(*) FILTER (WHERE c.relname = '`+versionTable+`') FROM pg_class c
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
		AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')`)
	if err != nil {
		return err
	}
	return migrate(ctx, goose.DialectPostgres, migrations, fsys, p.log)
}

// known fails with ErrForeign if there are tables and none of them is ours.
func known(ctx context.Context, pool *sql.DB, query string) error {
	var tables, ours int
	if err := pool.QueryRowContext(ctx, query).Scan(&tables, &ours); err != nil {
		return err
	}
	if tables > 0 && ours == 0 {
		return fmt.Errorf("%w: it holds %d tables", ErrForeign, tables)
	}
	return nil
}

func migrate(ctx context.Context, dialect goose.Dialect, pool *sql.DB, fsys fs.FS, log *slog.Logger) error {
	p, err := goose.NewProvider(dialect, pool, fsys, goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
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
