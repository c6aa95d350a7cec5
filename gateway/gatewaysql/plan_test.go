package gatewaysql

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/sqldb"
)

// TestF38_NoTurnThatIsOverIsRead holds the queries that run with every message,
// open and sweep to the indexes that leave turns out that are over: their cost
// must not grow with what is stored.
func TestF38_NoTurnThatIsOverIsRead(t *testing.T) {
	t.Parallel()
	store, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "gateway.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, query := range map[string]string{
		"open runs of a host": runsOfHost,
		"is a run busy":       busyRun,
		"a thread":            threadQuery + ` WHERE t.id = ?`,
		"recovering turns":    turnQuery + ` WHERE recover_by IS NOT NULL ORDER BY created_at, id`,
	} {
		for _, step := range plan(t, store, query) {
			over := strings.Contains(step, "turns_of_thread") || strings.Contains(step, "autoindex_turns") || strings.HasSuffix(step, "SCAN turns")
			if over {
				t.Errorf("%s: %s", name, step)
			}
		}
	}
}

func plan(t *testing.T, store *Store, query string) (steps []string) {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	for i := range args {
		args[i] = "x"
	}
	err := store.db.View(t.Context(), func(tx *sqldb.Tx) error {
		rows, err := tx.Query(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			steps = append(steps, step)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}
