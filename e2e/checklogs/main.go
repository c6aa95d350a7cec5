// Command checklogs reads a data folder that no program serves and says whether
// what must always hold of its two logs holds: the gateway's thread log and
// turns, the host's reservations and ledger, and each against the other. Folders of
// hosts on other machines stand behind it. It prints every fault that it finds, and exits 1 if there is one.
//
//	go run ./e2e/checklogs fairlead-data
//	go run ./e2e/checklogs fairlead-data postgres://localhost/fairlead
//	go run ./e2e/checklogs fairlead-data box1/fairlead-data box2/fairlead-data
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: checklogs DATA_DIR [DATABASE_URL] [DATA_DIR_OF_ANOTHER_HOST…]")
		os.Exit(2)
	}
	faults, err := check(context.Background(), os.Args[1], os.Args[2:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checklogs:", err)
		os.Exit(2)
	}
	if faults > 0 {
		os.Exit(1)
	}
}

// check reads a gateway that is kept in PostgreSQL, and hosts beside the embedded
// one, as copies in a file, so that the same rules hold for them.
func check(ctx context.Context, dir string, more []string, out io.Writer) (faults int, err error) {
	folder, err := os.MkdirTemp("", "checklogs")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	gateway := filepath.Join(dir, "gateway.db")
	if len(more) > 0 && strings.Contains(more[0], "://") {
		gateway = filepath.Join(folder, "gateway.db")
		if err := copyGateway(ctx, more[0], gateway); err != nil {
			return 0, err
		}
		more = more[1:]
	}
	host := filepath.Join(dir, "host", "host.db")
	if len(more) > 0 {
		hosts := []string{host}
		for _, dir := range more {
			hosts = append(hosts, filepath.Join(dir, "host", "host.db"))
		}
		host = filepath.Join(folder, "hosts.db")
		if faults, err = joinHosts(ctx, hosts, host, out); err != nil {
			return faults, err
		}
	}
	n, err := run(ctx, gateway, host, out)
	return faults + n, err
}

func run(ctx context.Context, gateway, host string, out io.Writer) (faults int, err error) {
	db, err := open(ctx, gateway, host)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for _, r := range rules {
		found, err := rows(ctx, db, r.query)
		if err != nil {
			return faults, fmt.Errorf("%s: %w", r.name, err)
		}
		for _, row := range found {
			fmt.Fprintf(out, "FAULT %s: %s\n", r.name, row)
		}
		faults += len(found)
	}
	n, err := compareTexts(ctx, db, out)
	if err != nil {
		return faults, err
	}
	faults += n
	counts, err := rows(ctx, db, `SELECT
		(SELECT count(*) FROM threads), (SELECT count(*) FROM thread_events), (SELECT count(*) FROM turns),
		(SELECT count(*) FROM host.native_turns), (SELECT count(*) FROM host.native_events)`)
	if err != nil {
		return faults, err
	}
	fmt.Fprintf(out, "threads, thread events, turns, native turns, ledger records: %s; %d faults\n", counts[0], faults)
	return faults, nil
}

// open joins both databases in one connection, for reading.
func open(ctx context.Context, gateway, host string) (*sql.DB, error) {
	for _, path := range []string{gateway, host} {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	db, err := sql.Open("sqlite3", "file:"+gateway)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	for _, statement := range []string{"ATTACH '" + host + "' AS host", "PRAGMA query_only = 1"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// rows gives each row of a query as one line.
func rows(ctx context.Context, db *sql.DB, query string, args ...any) (lines []string, err error) {
	found, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		return nil, err
	}
	for found.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(sql.NullString)
		}
		if err := found.Scan(values...); err != nil {
			return nil, err
		}
		fields := make([]string, len(columns))
		for i, v := range values {
			fields[i] = v.(*sql.NullString).String
		}
		lines = append(lines, strings.Join(fields, " "))
	}
	return lines, found.Err()
}

// compareTexts holds the text that people see against the text that the provider
// sent: equal for a completed turn, a beginning of it for any other.
func compareTexts(ctx context.Context, db *sql.DB, out io.Writer) (faults int, err error) {
	found, err := db.QueryContext(ctx, textsQuery)
	if err != nil {
		return 0, err
	}
	defer found.Close()
	for found.Next() {
		var turn, status, seen, sent string
		if err := found.Scan(&turn, &status, &seen, &sent); err != nil {
			return faults, err
		}
		if status == "completed" && seen != sent || !strings.HasPrefix(sent, seen) {
			fmt.Fprintf(out, "FAULT text of %s turn %s: %d bytes seen, %d bytes in the ledger\n", status, turn, len(seen), len(sent))
			faults++
		}
	}
	return faults, found.Err()
}
