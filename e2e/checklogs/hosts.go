package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
)

// joinHosts copies the tables of several hosts into one new file, without
// constraints: each numbers its ledger for itself. Every file is looked at for
// damage first, which its copy would not show.
func joinHosts(ctx context.Context, hosts []string, path string, out io.Writer) (faults int, err error) {
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, host := range hosts {
		n, err := addHost(ctx, db, host, out)
		if err != nil {
			return faults, fmt.Errorf("%s: %w", host, err)
		}
		faults += n
	}
	return faults, nil
}

func addHost(ctx context.Context, db *sql.DB, host string, out io.Writer) (faults int, err error) {
	if _, err := os.Stat(host); err != nil {
		return 0, err
	}
	if _, err := db.ExecContext(ctx, "ATTACH '"+host+"' AS one"); err != nil {
		return 0, err
	}
	damage, err := rows(ctx, db, `SELECT integrity_check FROM pragma_integrity_check WHERE schema = 'one' AND integrity_check <> 'ok'`)
	if err != nil {
		return 0, err
	}
	for _, what := range damage {
		fmt.Fprintf(out, "FAULT %s is damaged: %s\n", host, what)
	}
	tables, err := rows(ctx, db, `SELECT name FROM one.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
	if err != nil {
		return len(damage), err
	}
	for _, table := range tables {
		statements := []string{
			`CREATE TABLE IF NOT EXISTS main."` + table + `" AS SELECT * FROM one."` + table + `" WHERE 0`,
			`INSERT INTO main."` + table + `" SELECT * FROM one."` + table + `"`,
		}
		for _, statement := range statements {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return len(damage), fmt.Errorf("copy %s: %w", table, err)
			}
		}
	}
	_, err = db.ExecContext(ctx, "DETACH one")
	return len(damage), err
}
