package gatewaysql

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

// hot are the queries that run with every message, steer, open and sweep, with
// indexes that must be among those that serve it.
var hot = []struct {
	name, query string
	indexes     []string
}{
	{"open runs of a host", runsOfHost, nil},
	{"is a run busy", busyRun, nil},
	{"latest binding of a thread", latestBinding, []string{"bindings_of_run"}},
	{"a thread", threadQuery + ` WHERE t.id = ?`, []string{"turns_active", "turns_recovering"}},
	{"recovering turns", turnQuery + ` WHERE recover_by IS NOT NULL ORDER BY created_at, id`, []string{"turns_recovering"}},
	{"active turn", turnQuery + ` WHERE thread_id = ? AND status IN ('queued', 'pending', 'running')`, []string{"turns_active"}},
	{"queued turns of an org", queuedTurns, []string{"turns_waiting_of_org"}},
	{"waiting orgs", waitingOrgs, []string{"turns_waiting_of_org"}},
	{"unknown turns", unknownTurns, []string{"turns_unknown"}},
	{"aged turns", agedTurns, []string{"turns_by_start", "deliveries_deadline"}},
	{"load of an org", loadQuery, []string{"turns_live_of_org", "turns_waiting_of_org", "turns_of_org", "turns_of_account"}},
	{"open delivery of a turn", deliveryQuery + ` WHERE turn_id = ? AND state IN ('reserved', 'held')`, []string{"deliveries_open_of_turn"}},
	{"open delivery of a message", deliveryQuery + ` WHERE event_id = ? AND state IN ('reserved', 'held')`, []string{"deliveries_open_of_event"}},
	{"deliveries of a turn", deliveryQuery + ` WHERE turn_id = ? ORDER BY created_at, id`, []string{"deliveries_of_turn"}},
	{"steers of a thread", steersQuery, []string{"queue_order"}},
	{"open commands", commandQuery + ` WHERE run_id = ? AND state IN ('pending', 'sent') ORDER BY seq`, []string{"commands"}},
	{"charges of a turn", chargesQuery, []string{"charges_of_turn"}},
}

// readsAll tells whether a step reads what is over as well.
func readsAll(step string) bool {
	for _, table := range []string{"turns", "thread_events", "queue", "deliveries", "commands", "charges"} {
		if strings.HasSuffix(step, "SCAN "+table) || strings.Contains(step, "Seq Scan on "+table+" ") {
			return true
		}
	}
	return strings.Contains(step, "turns_of_thread") || strings.Contains(step, "autoindex_turns") || strings.Contains(step, "turns_pkey")
}

// TestF38_NoTurnThatIsOverIsRead holds the queries to the indexes that leave out
// what is over.
func TestF38_NoTurnThatIsOverIsRead(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		checkPlans(t, Options{Path: filepath.Join(t.TempDir(), "gateway.db")}, "EXPLAIN QUERY PLAN ")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		// Small tables are read whole there, unless that is forbidden.
		checkPlans(t, Options{URL: pgtest.URL(t) + "&enable_seqscan=off&enable_bitmapscan=off&plan_cache_mode=force_generic_plan"}, "EXPLAIN ")
	})
}

func checkPlans(t *testing.T, o Options, explain string) {
	t.Helper()
	store, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, q := range hot {
		steps := plan(t, store, explain, q.query)
		text := strings.Join(steps, "\n")
		for _, step := range steps {
			if readsAll(step) {
				t.Errorf("%s: %s", q.name, step)
			}
		}
		for _, index := range q.indexes {
			if !strings.Contains(text, index) {
				t.Errorf("%s does not use %s:\n%s", q.name, index, text)
			}
		}
	}
}

func plan(t *testing.T, store *Store, explain, query string) (steps []string) {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	for i := range args {
		args[i] = "1" // a text and a number
	}
	err := store.db.View(t.Context(), func(tx *sqldb.Tx) error {
		rows, err := tx.Query(t.Context(), explain+query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, parent, unused int
			var step string
			dest := []any{&id, &parent, &unused, &step}
			if tx.Dialect() == sqldb.Postgres {
				dest = []any{&step}
			}
			if err := rows.Scan(dest...); err != nil {
				return err
			}
			steps = append(steps, step)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return steps
}
