package relay_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // a connection that enforces no rule, for tampering

	"github.com/fairlead/fairlead/relay/sqldb"
)

// rawDB opens a database without the rules that Fairlead's own connections have.
func rawDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(0)&_pragma=ignore_check_constraints(1)")
	must(t, err)
	return db
}

// openDBAsIs opens a database without migrating it.
func openDBAsIs(t *testing.T, path string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(context.Background(), sqldb.Options{Path: path})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// dump gives the host's rows as text.
func dump(t *testing.T, r *rig) string {
	t.Helper()
	var out strings.Builder
	err := r.db.View(context.Background(), func(tx *sqldb.Tx) error {
		for _, table := range []string{"relay_scopes", "relay_bindings", "relay_turns", "relay_runs", "relay_journal"} {
			if err := dumpTable(tx, table, &out); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	return out.String()
}

func dumpTable(tx *sqldb.Tx, table string, out *strings.Builder) error {
	rows, err := tx.Query(context.Background(), "SELECT * FROM "+table+" ORDER BY 1, 2, 3")
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(any)
		}
		if err := rows.Scan(cells...); err != nil {
			return err
		}
		out.WriteString(table)
		for _, c := range cells {
			fmt.Fprintf(out, "|%v", *c.(*any))
		}
		out.WriteByte('\n')
	}
	return rows.Err()
}
