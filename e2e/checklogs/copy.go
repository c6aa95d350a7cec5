package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// copyGateway copies every table of a PostgreSQL database into a new SQLite file,
// with the names of its columns and without constraints.
func copyGateway(ctx context.Context, url, path string) error {
	from, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		return err
	}
	defer to.Close()
	to.SetMaxOpenConns(1)
	tables, err := rows(ctx, from, `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`)
	if err != nil {
		return err
	}
	if len(tables) == 0 {
		return fmt.Errorf("the database holds no tables")
	}
	for _, table := range tables {
		if err := copyTable(ctx, from, to, table); err != nil {
			return fmt.Errorf("copy %s: %w", table, err)
		}
	}
	return nil
}

func copyTable(ctx context.Context, from, to *sql.DB, table string) error {
	found, err := from.QueryContext(ctx, `SELECT * FROM "`+table+`"`)
	if err != nil {
		return err
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		return err
	}
	tx, err := to.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	names := `"` + strings.Join(columns, `", "`) + `"`
	if _, err := tx.ExecContext(ctx, `CREATE TABLE "`+table+`" (`+names+`)`); err != nil {
		return err
	}
	insert := `INSERT INTO "` + table + `" VALUES (?` + strings.Repeat(", ?", len(columns)-1) + `)`
	for found.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := found.Scan(values...); err != nil {
			return err
		}
		for i := range values {
			values[i] = *values[i].(*any)
		}
		if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
			return err
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	return tx.Commit()
}
