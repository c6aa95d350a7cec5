package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestRH62_TheCommandLineBesideAServerWithHosts changes a linked host from the command
// line: the server goes by it within five seconds, and a revoked host ends by itself
// and does not get in again.
func TestRH62_TheCommandLineBesideAServerWithHosts(t *testing.T) {
	t.Parallel()
	onBothGateways(t, func(t *testing.T, gw *install) {
		f := newFleet(t, newProvider(t), gw, 1, "count:3")
		m := f.hosts[0]
		row := func() hostRow {
			for _, r := range f.rows() {
				if r.HostID == m.id {
					return r
				}
			}
			return hostRow{}
		}
		noticed := func(what string, is func(hostRow) bool) {
			t.Helper()
			changed := time.Now()
			f.eventually(what, func() bool { return is(row()) })
			if took := time.Since(changed); took > 5*time.Second {
				t.Errorf("%s: noticed after %s", what, took)
			}
		}
		gw.command("", "admin", "host", "rename", "--host", m.name, "--name", "Renamed box")
		noticed("the new name", func(r hostRow) bool { return r.Name == "Renamed box" })
		gw.command("", "admin", "host", "drain", "--host", m.id)
		noticed("draining", func(r hostRow) bool { return r.State == "draining" && r.Draining })
		gw.command("", "admin", "host", "resume", "--host", "Renamed box")
		noticed("resumed", func(r hostRow) bool { return r.State == "online" && !r.Draining })

		revoked := time.Now()
		gw.command("", "admin", "host", "revoke", "--host", m.id)
		select {
		case <-m.exited:
		case <-time.After(startLimit):
			t.Fatalf("the revoked host runs on\n%s", f.logs())
		}
		if took := time.Since(revoked); took > 5*time.Second {
			t.Errorf("the revoked host ended after %s", took)
		}
		if code := m.exitCode(); code == 0 || !strings.Contains(m.log(), "revoked") {
			t.Errorf("the host ended with %d\n%s", code, m.log())
		}
		noticed("revoked", func(r hostRow) bool { return r.State == "revoked" })
		if out := gw.command("", "admin", "host", "list"); !strings.Contains(out, m.id) || !strings.Contains(out, "revoked") {
			t.Errorf("listed as\n%s", out)
		}
	})
}
