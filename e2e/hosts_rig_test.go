package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fleet is a gateway whose models are on hosts that run elsewhere, each behind a
// network of its own.
type fleet struct {
	t     *testing.T
	p     *provider
	gw    *install
	url   string
	token string // of a member
	admin string
	hosts []*machine
}

// machine is a host on another machine.
type machine struct {
	*install
	net  *proxy
	name string
	id   string
}

// quick is how soon ends of links notice each other's silence in these tests.
const quick = "host_link: {heartbeat: 1s, silence: 3s}"

// newFleet starts a gateway with n hosts that are linked, all of which offer the
// model "counter".
func newFleet(t *testing.T, p *provider, gw *install, n int, upstream string) *fleet {
	t.Helper()
	f := &fleet{t: t, p: p, gw: gw.stayAt()}
	gw.start()
	f.url = gw.url
	f.token = gw.user("member@example.com")
	gw.command("a long enough password\n", "admin", "user", "create", "--email", "root@example.com", "--role", "admin", "--password-stdin")
	f.admin = gw.command("", "admin", "token", "create", "--email", "root@example.com", "--scopes", "admin", "--ttl", "24h")
	for i := range n {
		f.join(fmt.Sprintf("box%d", i), upstream)
	}
	f.serving(n)
	return f
}

// gatewayAlone has no model but the demo's.
func gatewayAlone(t *testing.T) *install {
	t.Helper()
	return installWith(t).set(quick)
}

// onBothGateways runs a test on a gateway of each kind of store.
func onBothGateways(t *testing.T, test func(t *testing.T, gw *install)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, gatewayAlone(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, gatewayAlone(t).onPostgres())
	})
}

// join makes a machine a host, by the command that an admin is told, and starts it.
func (f *fleet) join(name, upstream string) *machine {
	f.t.Helper()
	m := &machine{install: newInstall(f.t, f.p.URL, model{"counter", upstream}).set(quick), net: newProxy(f.t, f.url), name: name}
	m.args, m.ready = []string{"host", "run"}, regexp.MustCompile(`(link: linked)`)
	var invited struct{ Token string }
	f.api("POST", "/hosts/invites", map[string]any{"name": name}, &invited)
	m.command(invited.Token+"\n", "host", "join", m.net.url(), "-")
	m.start()
	f.hosts = append(f.hosts, m)
	return m
}

// hostRow is a host as admins see it.
type hostRow struct {
	HostID, Name, State, LastError string
	Routes, Inflight, OpenRuns     int
	Embedded, Draining             bool
	SeenAt                         time.Time
}

func (f *fleet) rows() []hostRow {
	f.t.Helper()
	var reply struct{ Hosts []hostRow }
	f.api("GET", "/hosts", nil, &reply)
	return reply.Hosts
}

// serving waits until n hosts elsewhere offer their model.
func (f *fleet) serving(n int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d hosts serve", n), func() bool {
		up := 0
		for _, row := range f.rows() {
			for _, m := range f.hosts {
				if row.Name == m.name {
					m.id = row.HostID
				}
			}
			if !row.Embedded && row.State == "online" && row.Routes > 0 {
				up++
			}
		}
		return up == n
	})
}

func (f *fleet) eventually(what string, ok func() bool) {
	f.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("did not happen: %s\n%s", what, f.logs())
		}
	}
}

// logs are the last lines of everybody.
func (f *fleet) logs() string {
	var b strings.Builder
	tail := func(name string, in *install) {
		lines := strings.Split(strings.TrimSpace(in.log()), "\n")
		fmt.Fprintf(&b, "--- %s\n%s\n", name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
	tail("gateway", f.gw)
	for _, m := range f.hosts {
		tail(m.name, m.install)
	}
	return b.String()
}

// api calls the gateway's HTTP API as an admin.
func (f *fleet) api(method, path string, body, into any) {
	f.t.Helper()
	if err := f.try(method, path, body, into); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) try(method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if body == nil {
		raw = nil
	}
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+"/api/v1"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+f.admin)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// ask is one turn: a message with its reader, who comes back whenever the gateway
// ends the socket. prompt is the only message of its thread.
type ask struct {
	*view
	message, prompt string
}

func newAsk(prompt string) *ask {
	return &ask{view: &view{threadID: newID()}, message: newID(), prompt: prompt}
}

// send sends until the gateway has answered, and again while it says that this may
// help: after a start it does not know yet what its hosts serve.
func (f *fleet) send(ctx context.Context, a *ask) error {
	for {
		var reply frame
		c, err := dial(ctx, f.url, f.token)
		if err == nil {
			reply, err = c.send(ctx, "", a.threadID, a.message, a.prompt, "counter")
			c.close()
		}
		again := strings.Contains(reply.raw, `"retryable":true`)
		if err == nil || errors.Is(err, errRefused) && !again || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (a *ask) over() bool {
	turn := a.turnOf(a.message)
	return turn != "" && a.terminal(turn) != nil
}

// read follows until the turn is over.
func (f *fleet) read(ctx context.Context, a *ask) error {
	if err := f.follow(ctx, a, a.over); err != nil {
		return err
	}
	return nil
}

func (f *fleet) follow(ctx context.Context, a *ask, done func() bool) error {
	return follow(ctx, &install{url: f.url}, f.token, a.view, done)
}

// says waits until the turn has said something.
func (f *fleet) says(ctx context.Context, a *ask) {
	f.t.Helper()
	if err := f.follow(ctx, a, func() bool { return a.offset > 0 }); err != nil {
		f.t.Fatal(err, "\n", f.logs())
	}
}

// completed checks that the log holds the whole answer, and that the provider was
// asked once.
func (f *fleet) completed(a *ask, numbers int) error {
	turn, whole := a.turnOf(a.message), counted(numbers)
	end, answer := a.terminal(turn), a.answer(turn)
	switch n := f.p.requests(f.t, a.prompt); {
	case end == nil || end.EventType != "turn.completed" || answer != whole:
		return fmt.Errorf("%q: %d of %d bytes\n%s", a.prompt, len(answer), len(whole), describe(a.view))
	case n != 1:
		return fmt.Errorf("%q: %d provider requests", a.prompt, n)
	case a.turnID == turn && !strings.HasPrefix(whole, a.text.String()):
		return fmt.Errorf("%q: the stream was not the answer", a.prompt)
	}
	return nil
}

// stops ends a program that owes nothing any more, which takes no time.
func (f *fleet) stops(in *install) {
	f.t.Helper()
	began := time.Now()
	in.stop()
	if took := time.Since(began); took > 15*time.Second {
		f.t.Errorf("a program without turns ended only after %s:\n%s", took, f.logs())
	}
}

// checkLogs ends everybody and runs the checker over all data folders.
func (f *fleet) checkLogs() {
	f.t.Helper()
	for _, m := range f.hosts {
		f.stops(m.install)
	}
	f.stops(f.gw)
	args := []string{"run", "./checklogs", filepath.Join(f.gw.dir, "data")}
	if f.gw.database != "" {
		args = append(args, f.gw.database)
	}
	for _, m := range f.hosts {
		args = append(args, filepath.Join(m.dir, "data"))
	}
	out, err := exec.CommandContext(f.t.Context(), "go", args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("the checker found faults: %v\n%s", err, out)
	}
	f.t.Logf("%s", out)
}
