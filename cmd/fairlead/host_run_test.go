package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// acknowledge retires everything up to an event.
func (l *doorLink) acknowledge(t *testing.T, e wire.Envelope) {
	t.Helper()
	if err := l.Cursor(t.Context(), relaytest.Run, e.Seq); err != nil {
		t.Fatal(err)
	}
}

func (l *doorLink) interrupt(t *testing.T, seq uint64, n int) {
	t.Helper()
	if err := l.Command(t.Context(), relaytest.Message(seq, relaytest.Interrupt(1, n))); err != nil {
		t.Fatal(err)
	}
	if ack := got(t, "the acknowledgement", l.acks); ack.Status != wire.AckApplied {
		t.Fatalf("interrupt: %+v", ack.Error)
	}
}

func applied(t *testing.T, ack wire.Ack) {
	t.Helper()
	if ack.Status != wire.AckApplied {
		t.Fatalf("ack is %+v", ack.Error)
	}
}

func TestRH60_TheCatalogIsInTheRun(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, strings.Repeat("c", 32))
	e := got(t, "the catalog", l.events).Envelope
	if e.Event != wire.EventRuntimeCatalog || e.ThreadID != "" || e.TurnID != "" || !strings.HasPrefix(e.SourceEventID, "catalog_") {
		t.Fatalf("event is %+v", e)
	}
	applied(t, l.prompt(t, 1, 1, "count to 2"))
	all := l.until(t, wire.EventTurnCompleted)
	if all[0].Event != wire.EventTurnStarted || all[0].Seq != 2 {
		t.Fatalf("first event is %+v", all[0])
	}
}

func TestRH49_AHostComesBackWithWhatWasNotAcknowledged(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 2"))
	first := l.until(t, wire.EventTurnCompleted)
	if err := l.conn.Close(link.Ending{Code: link.CloseRestart}); err != nil {
		t.Fatal(err)
	}
	l = got(t, "the next link", d.links)
	l.attachDemo(t, 1, "")
	again := l.until(t, wire.EventTurnCompleted)
	if a, b := mustJSON(t, again), mustJSON(t, first[1:]); a != b {
		t.Fatalf("again:\n%s\nfirst:\n%s", a, b)
	}
}

func TestRH62_TheHostDrainsAndLeaves(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.settings("host: {name: box, drain: 1h}\n")
	m.joined(d)
	s := m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 1000000"))
	s.term()
	if reason := got(t, "draining", l.draining).Reason; reason != string(wire.CodeShuttingDown) {
		t.Errorf("reason is %q", reason)
	}
	if ack := l.prompt(t, 2, 2, "another"); ack.Error == nil || ack.Error.Code != wire.CodeShuttingDown || !ack.Error.Retryable {
		t.Fatalf("ack is %+v", ack)
	}
	applied(t, l.prompt(t, 1, 1, "count to 1000000")) // exact replay
	l.interrupt(t, 3, 1)
	all := l.until(t, wire.EventTurnCompleted)
	select {
	case err := <-s.ended:
		t.Fatalf("the host left before its event was acknowledged: %v", err)
	case <-l.offline:
		t.Fatal("the host said goodbye before its event was acknowledged")
	case <-time.After(200 * time.Millisecond):
	}
	l.acknowledge(t, all[len(all)-1])
	got(t, "offline", l.offline)
	if err := got(t, "the end", s.ended); err != nil {
		t.Fatal(err)
	}
}

// TestRH62_TheDrainHasAnEnd stops a turn that outlasts host.drain while the link
// carries its end.
func TestRH62_TheDrainHasAnEnd(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.settings("host: {name: box, drain: 300ms}\n")
	m.joined(d)
	s := m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 1000000"))
	s.term()
	all := l.until(t, wire.EventTurnCompleted)
	last := all[len(all)-1]
	if !strings.Contains(string(last.Payload), string(wire.CodeHostRestarted)) {
		t.Errorf("the turn ended as %s", last.Payload)
	}
	l.acknowledge(t, last)
	got(t, "offline", l.offline)
	if err := got(t, "the end", s.ended); err != nil {
		t.Fatal(err)
	}
}

func TestRH62_AGatewayThatIsAwayDoesNotKeepTheHost(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.settings("host: {name: box, drain: 100ms}\n")
	m.joined(d)
	s := m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 2"))
	l.until(t, wire.EventTurnCompleted)
	d.answer(wire.PathHostLink, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	_ = l.conn.Close(link.Ending{})
	s.term()
	err := got(t, "the end", s.ended)
	if err == nil || !strings.Contains(err.Error(), "the next start tells it") {
		t.Fatalf("error is %v", err)
	}
}

func TestRH61_SettingsAreReadAgainByDraining(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	s := m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 1000000"))
	m.settings("host: {name: box, max_inflight: 3, drain: 5s}\ncontext: {stopped_answers: omit}\n")
	s.hangup <- os.Interrupt
	if reason := got(t, "draining", l.draining).Reason; reason != "settings_changed" {
		t.Errorf("reason is %q", reason)
	}
	if ack := l.prompt(t, 2, 2, "another"); ack.Error == nil || ack.Error.Code != wire.CodeShuttingDown {
		t.Fatalf("ack is %+v", ack)
	}
	l.interrupt(t, 3, 1)
	all := l.until(t, wire.EventTurnCompleted)
	l.acknowledge(t, all[len(all)-1])
	got(t, "offline", l.offline)

	l = got(t, "the next link", d.links)
	last := all[len(all)-1].Seq
	l.attachDemo(t, last, strings.Repeat("d", 32))
	if e := got(t, "the new catalog", l.events).Envelope; e.Event != wire.EventRuntimeCatalog || e.Seq != last+1 {
		t.Fatalf("event is %+v", e)
	}
	applied(t, l.prompt(t, 2, 2, "count to 2")) // the command that was refused
	l.until(t, wire.EventTurnCompleted)
}

func TestRH61_WrongSettingsAreNotTakenUp(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	s := m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	m.settings("host: {max_inflight: 0}\n")
	s.hangup <- os.Interrupt
	until(t, "the complaint", func() bool { return strings.Contains(s.log.String(), "the old settings stay in force") })
	applied(t, l.prompt(t, 1, 1, "count to 2"))
	l.until(t, wire.EventTurnCompleted)
	if len(l.draining) > 0 {
		t.Error("the host drained")
	}
}

// until waits for something that another goroutine does.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
		<-tick.C
	}
}

func TestRH45_RH47_AHostThatIsNotWantedEndsForGood(t *testing.T) {
	t.Parallel()
	refusing := func(d *doorway, status int, code wire.Code) {
		d.answer(wire.PathHostLink, func(w http.ResponseWriter, _ *http.Request) {
			refuseJSON(w, status, wire.NewError(code, "No."))
		})
	}
	for name, c := range map[string]struct {
		before func(*doorway)
		after  func(*testing.T, *doorLink)
		code   int
		want   string
	}{
		"revoked while linked": {after: func(t *testing.T, l *doorLink) {
			if err := l.Revoke(t.Context(), "key lost"); err != nil {
				t.Error(err)
			}
		}, code: exitRefused, want: "key lost"},
		"superseded": {after: func(_ *testing.T, l *doorLink) {
			_ = l.End(link.Ending{Code: link.CloseSuperseded, Reason: "superseded"})
		}, code: exitSuperseded, want: "in use twice"},
		"forbidden": {after: func(_ *testing.T, l *doorLink) {
			_ = l.End(link.Ending{Code: link.CloseForbidden})
		}, code: exitRefused, want: "--replace"},
		"revoked before":  {before: func(d *doorway) { refusing(d, 403, wire.CodeHostRevoked) }, code: exitRefused, want: "new invitation"},
		"unknown":         {before: func(d *doorway) { refusing(d, 401, wire.CodeUnauthorized) }, code: exitRefused, want: "does not know this host"},
		"another gateway": {before: func(d *doorway) { d.gatewayID = "gateway_x" }, code: exitRefused, want: "another gateway"},
	} {
		t.Run("RH47 "+name, func(t *testing.T) {
			t.Parallel()
			d, m := newDoorway(t), newMachine(t)
			m.joined(d)
			if c.before != nil {
				c.before(d)
			}
			s := m.serve()
			if c.after != nil {
				c.after(t, got(t, "the link", d.links))
			}
			err := got(t, "the end", s.ended)
			var stopped *stoppedError
			if !errors.As(err, &stopped) || stopped.code != c.code || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v", err)
			}
			if name == "another gateway" && strings.Contains(d.everything(), wire.HostScheme) {
				t.Error("another gateway got a signature")
			}
		})
	}
}

func TestHostRunNeedsAnEnrolment(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	if code, _, errs := m.call("", "host", "run"); code != exitFailed || !strings.Contains(errs, "fairlead host join URL TOKEN") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	m.joined(d)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(m.data, "host")
	target := m.read("target")
	must(os.WriteFile(filepath.Join(dir, "target"), []byte("target_"+strings.Repeat("0", 32)+"\n"), 0o600))
	if code, _, errs := m.call("", "host", "run"); code != exitFailed || !strings.Contains(errs, string(wire.CodeTargetMismatch)) {
		t.Errorf("RH59: exit code %d\n%s", code, errs)
	}
	must(os.WriteFile(filepath.Join(dir, "target"), []byte(target), 0o600))
	must(os.Remove(filepath.Join(dir, hostKeyName)))
	if code, _, errs := m.call("", "host", "run"); code != exitFailed || !strings.Contains(errs, "The key of this host is not in its folder") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	must(os.WriteFile(filepath.Join(dir, hostKeyName), []byte("x\n"), 0o600))
	if code, _, errs := m.call("", "host", "run"); code != exitFailed || !strings.Contains(errs, "does not hold a host's key") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	must(os.WriteFile(filepath.Join(dir, enrolmentName), []byte("{}"), 0o600))
	if code, _, errs := m.call("", "host", "run"); code != exitFailed || !strings.Contains(errs, "does not say which gateway") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// TestRH61_ASignalToEndDuringAReload: the host opens with its new settings and then
// leaves in good order; a service that is stopped has not failed.
func TestRH61_ASignalToEndDuringAReload(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	cfg, err := loadConfig("", m.environ(), nil)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := openHost(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := parts.close(); err != nil {
			t.Error(err)
		}
	}()
	term, cancel := context.WithCancel(t.Context())
	cancel()
	r := &hostRunner{parts: parts}
	if err := r.reopen(term, cfg, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("the reload was cut: %v", err)
	}
}

// TestRH61_NobodyWhoIsGoneHoldsAReloadUp: the gateway or the control plane of a run may
// never come back to acknowledge what the host keeps for it. That is kept over a reload as
// over a restart; to take no prompt for ever would help nobody.
func TestRH61_NobodyWhoIsGoneHoldsAReloadUp(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	s := m.serve()
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 2"))
	all := l.until(t, wire.EventTurnCompleted)
	s.hangup <- os.Interrupt
	l = got(t, "the link with the new settings", d.links)
	l.attachDemo(t, 0, "")
	if again := l.until(t, wire.EventTurnCompleted); mustJSON(t, again) != mustJSON(t, all) {
		t.Errorf("what was kept is %s, before %s", mustJSON(t, again), mustJSON(t, all))
	}
}
