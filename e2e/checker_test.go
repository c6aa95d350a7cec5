package e2e

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"
)

// damages are single faults, each with the words of the rule that must find it.
var damages = []struct{ name, database, statement, found string }{
	{"a lost terminal event", "gateway.db", `DELETE FROM thread_events WHERE event_type = 'turn.completed'`, "without exactly one terminal event"},
	{"a second terminal event", "gateway.db", `INSERT INTO thread_events SELECT 'x', thread_id, seq_id + 1, event_type, created_at, turn_id,
		NULL, NULL, payload, size FROM thread_events WHERE event_type = 'turn.completed'`, "without exactly one terminal event"},
	{"an answer cut short", "gateway.db", `UPDATE thread_events SET content = substr(content, 1, 3) WHERE event_type = 'output.message'`, "wrong length"},
	{"a changed answer", "gateway.db", `UPDATE thread_events SET content = replace(content, '1', '7') WHERE event_type = 'output.message'`, "text of completed turn"},
	{"a lost replacement", "gateway.db", `DELETE FROM thread_events WHERE revokes_event_id IS NOT NULL`, "exactly one replacement"},
	{"a turn reopened", "gateway.db", `UPDATE turns SET status = 'running'`, "without exactly one terminal event"},
	{"a lost delta", "host/host.db", `DELETE FROM native_events WHERE seq = (SELECT max(seq) FROM native_events WHERE event = 'item.delta')`, "text of completed turn"},
	{"a doubled end", "host/host.db", `INSERT INTO native_events SELECT seq + 100, thread_id, turn_id, item_id, event, at, payload
		FROM native_events WHERE event = 'turn.completed'`, "more than one end"},
	{"a cursor that ran ahead", "host/host.db", `UPDATE relay_bindings SET projected_seq = 100000`, "projection beyond the ledger"},
	{"an end that was not projected", "host/host.db", `UPDATE relay_turns SET terminal_projected = 1, settled_at = coalesce(settled_at, 1); UPDATE relay_bindings SET projected_seq = 1`, "was not projected"},
}

// TestF22_TheCheckerFindsEachKindOfDamage breaks a copy of a sound folder in one
// way at a time.
func TestF22_TheCheckerFindsEachKindOfDamage(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:20"})
	in.start()
	token := in.user("checker@example.com")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	oneTurn(ctx, t, in, token, "counter")
	in.stop()
	data := filepath.Join(in.dir, "data")
	checker := filepath.Join(t.TempDir(), "checklogs")
	if err := goBuild(ctx, checker, "./checklogs"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, checker, data).CombinedOutput(); err != nil {
		t.Fatalf("the sound folder: %v: %s", err, out)
	}
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			broken := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(broken, os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
			damage(t, filepath.Join(broken, d.database), d.statement)
			out, err := exec.CommandContext(ctx, checker, broken).CombinedOutput()
			if err == nil || !strings.Contains(string(out), d.found) {
				t.Errorf("the checker did not say %q: %v\n%s", d.found, err, out)
			}
		})
	}
}

// TestRH48_TheCheckerHoldsHostsAgainstEachOther gives the checker a second host that
// claims a run of the first.
func TestRH48_TheCheckerHoldsHostsAgainstEachOther(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:20"})
	in.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	oneTurn(ctx, t, in, in.user("checker@example.com"), "counter")
	in.stop()
	data, other := filepath.Join(in.dir, "data"), filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(other, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	host := filepath.Join(other, "host", "host.db")
	for _, table := range []string{"relay_turns", "relay_bindings", "native_events", "native_turns", "native_threads"} {
		damage(t, host, "PRAGMA foreign_keys = 0; DELETE FROM "+table)
	}
	damage(t, host, `PRAGMA foreign_keys = 0; UPDATE relay_runs SET scope_key = 'another'`)
	out, err := exec.CommandContext(ctx, "go", "run", "./checklogs", data, other).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "FAULT run that more than one host holds") || strings.Count(string(out), "FAULT") != 1 {
		t.Errorf("the checker said: %v\n%s", err, out)
	}
}

func damage(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	res, err := db.ExecContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		t.Fatalf("nothing was damaged: %v", err)
	}
}
