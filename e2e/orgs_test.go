package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// closeCredential is the close code of a socket whose session or token ended.
const closeCredential = 4401

// TestOrgs_ARunningServerNoticesTheCommandLine changes limits and members beside a
// server: the next turn goes by the new limits, and who is disabled is out within
// five seconds.
func TestOrgs_ARunningServerNoticesTheCommandLine(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:3"})
	in.start()
	token := in.user("member@example.com")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := dial(ctx, in.url, token)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	send := func() string {
		t.Helper()
		sent, err := c.send(ctx, "", newID(), newID(), "hello", "")
		if err != nil {
			t.Fatal(err)
		}
		return sent.Disposition
	}
	if got := send(); got != "started" {
		t.Errorf("at first a message is %s", got)
	}
	in.command("", "admin", "org", "entitlement", "--org", "Home", "--status", "suspended")
	if got := send(); got != "refused" {
		t.Errorf("in a suspended org a message is %s", got)
	}
	in.command("", "admin", "org", "entitlement", "--org", "Home", "--status", "active")
	in.command("", "admin", "org", "limits", "--org", "Home", "--member-daily-turns", "2")
	if got := send(); got != "started" {
		t.Errorf("below the limit a message is %s", got)
	}
	if got := send(); got != "refused" {
		t.Errorf("beyond the limit a message is %s", got)
	}

	in.command("", "admin", "member", "disable", "--email", "member@example.com")
	disabled := time.Now()
	for err == nil {
		_, err = c.next(ctx)
	}
	if took := time.Since(disabled); websocket.CloseStatus(err) != closeCredential || took > 5*time.Second {
		t.Errorf("the socket of a disabled member ended after %s with %v", took, err)
	}
	if _, err := dial(ctx, in.url, token); err == nil {
		t.Error("a disabled member comes in again")
	}
}
