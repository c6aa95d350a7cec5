package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func attach(t *testing.T, r *rig, cursor uint64, capabilities ...string) *relay.Attachment {
	t.Helper()
	a, err := r.host.Attach(context.Background(), relaytest.Attach(cursor), capabilities)
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

func applied(t testing.TB, a *relay.Attachment, seq uint64, command any) {
	t.Helper()
	ack := a.Command(context.Background(), relaytest.Message(seq, command))
	if ack.Status != wire.AckApplied {
		t.Fatalf("command %d: %+v", seq, ack.Error)
	}
}

func refused(t testing.TB, a *relay.Attachment, m wire.CommandMessage, code wire.Code) {
	t.Helper()
	ack := a.Command(context.Background(), m)
	if ack.Status != wire.AckFailed || ack.Error == nil || ack.Error.Code != code {
		t.Fatalf("ack is %+v, want code %q", ack, code)
	}
}

// next takes n envelopes and hands them off.
func next(t testing.TB, a *relay.Attachment, n int) []wire.Envelope {
	t.Helper()
	var out []wire.Envelope
	for len(out) < n {
		envelopes, err := a.Next(context.Background())
		must(t, err)
		must(t, a.HandedOff(context.Background(), envelopes[len(envelopes)-1].Seq))
		out = append(out, envelopes...)
	}
	if len(out) > n {
		t.Fatalf("%d envelopes, want %d", len(out), n)
	}
	return out
}

func TestAttachmentRunsATurn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 41)
	equal(t, "cursor", a.RuntimeCursor(), 41)
	ack := a.Command(ctx, relaytest.Message(1, relaytest.Prompt(1, 1)))
	equal(t, "ack", ack, wire.Ack{
		RunID: relaytest.Run, CommandSeq: 1, CommandType: wire.TypePromptRequest,
		Status: wire.AckApplied, TurnID: relaytest.TurnID(1),
	})
	thread, turn := r.started(0)
	done := make(chan []wire.Envelope)
	go func() {
		var all []wire.Envelope
		for len(all) == 0 || all[len(all)-1].Event != wire.EventTurnCompleted {
			envelopes, err := a.Next(ctx)
			if err != nil || a.HandedOff(ctx, envelopes[len(envelopes)-1].Seq) != nil {
				break
			}
			all = append(all, envelopes...)
		}
		done <- all
	}()
	for range 100 {
		r.runtime.Say(thread, turn, "word ")
	}
	r.runtime.End(thread, turn, relay.NativeCompleted)
	all := <-done
	equal(t, "envelopes", len(all), 102)
	for i, e := range all {
		equal(t, "seq", e.Seq, uint64(42+i))
	}
	must(t, a.Acknowledge(ctx, all[len(all)-1].Seq))
	must(t, a.Acknowledge(ctx, 5))
	err := a.Acknowledge(ctx, 10_000)
	wantCode(t, err, wire.CodeBadRequest)
	equal(t, "journal rows", strings.Count(dump(t, r), "relay_journal"), 0)
}

func TestRH47_PendingEnvelopesComeAgainByteIdentical(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	thread, turn := r.started(0)
	first := next(t, a, 1)
	r.runtime.Say(thread, turn, "<b>& ü \u2028")
	first = append(first, next(t, a, 1)...)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	first = append(first, next(t, a, 1)...)
	a.Close()
	r.reopen()

	again := attach(t, r, 1)
	equal(t, "cursor", again.RuntimeCursor(), 1)
	envelopes, err := again.Next(ctx)
	must(t, err)
	equal(t, "envelopes", len(envelopes), 2)
	for i, e := range envelopes {
		want, err := json.Marshal(first[i+1])
		must(t, err)
		got, err := json.Marshal(e)
		must(t, err)
		equal(t, "envelope", string(got), string(want))
		equal(t, "payload", string(e.Payload), string(first[i+1].Payload))
	}
	must(t, again.HandedOff(ctx, 3))
	must(t, again.Acknowledge(ctx, 3))

	t.Run("RH47 a lower cursor later brings nothing back", func(t *testing.T) {
		again.Close()
		third := attach(t, r, 0)
		equal(t, "cursor", third.RuntimeCursor(), 3)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, err := third.Next(gone)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("error is %v", err)
		}
	})
}

func TestRH49_AcknowledgementsGatherUntilATurnEnds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	thread, turn := r.started(0)
	last := next(t, a, 1)[0].Seq
	say := func(n int) {
		for range n {
			r.runtime.Say(thread, turn, "word ")
			last = next(t, a, 1)[0].Seq
			must(t, a.Acknowledge(ctx, last))
		}
	}
	rows := func() int { return strings.Count(dump(t, r), "relay_journal") }
	say(20)
	equal(t, "journal rows while few are acknowledged", rows(), 21)
	say(20)
	if n := rows(); n >= 40 {
		t.Errorf("%d journal rows after 40 acknowledgements", n)
	}

	// A restart that forgot the last ones is told the cursor, and sends nothing again.
	a.Close()
	r.reopen()
	a = attach(t, r, last)
	equal(t, "cursor", a.RuntimeCursor(), last)
	equal(t, "journal rows", rows(), 0)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	must(t, a.Acknowledge(ctx, next(t, a, 1)[0].Seq))
	equal(t, "journal rows after the end", rows(), 0)
}

func TestAttachRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	for name, c := range map[string]struct {
		change func(*wire.Attach)
		code   wire.Code
	}{
		"cursor":    {func(a *wire.Attach) { a.Cursor = 1 << 53 }, wire.CodeBadRequest},
		"workspace": {func(a *wire.Attach) { a.WorkspaceID = "" }, wire.CodeCommandInvalid},
		"session":   {func(a *wire.Attach) { a.SessionID = " " }, wire.CodeOwnerInvalid},
		"account":   {func(a *wire.Attach) { a.AccountRef = "" }, wire.CodeOwnerInvalid},
		"run":       {func(a *wire.Attach) { a.RunID = "a..b" }, wire.CodeCommandInvalid},
	} {
		at := relaytest.Attach(0)
		c.change(&at)
		if _, err := r.host.Attach(ctx, at, nil); wire.CodeOf(err) != c.code {
			t.Fatalf("%s: %v", name, err)
		}
	}
	a := attach(t, r, 0)
	other := relaytest.Attach(0)
	other.AccountRef = "another account"
	_, err := r.host.Attach(ctx, other, nil)
	wantCode(t, err, wire.CodeOwnerMismatch)

	applied(t, a, 1, relaytest.Prompt(1, 1))
	thread, turn := r.started(0)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	next(t, a, 2)
	switched := relaytest.Attach(0)
	switched.RunID = "run_other"
	_, err = r.host.Attach(ctx, switched, nil)
	wantCode(t, err, wire.CodeOtherRunUnsettled)
	must(t, a.Acknowledge(ctx, 2))
	b, err := r.host.Attach(ctx, switched, nil)
	must(t, err)
	b.Close()
}

func TestANewerAttachmentTakesOver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	old := attach(t, r, 0)
	applied(t, old, 1, relaytest.Prompt(1, 1))
	thread, turn := r.started(0)
	next(t, old, 1)
	r.runtime.Say(thread, turn, "given, not handed off")
	_, err := old.Next(ctx)
	must(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := old.Next(ctx)
		waiting <- err
	}()
	fresh := attach(t, r, 1)
	wantCode(t, <-waiting, wire.CodeRunNotAuthorized)
	wantCode(t, old.HandedOff(ctx, 2), wire.CodeRunNotAuthorized)
	refused(t, old, relaytest.Message(2, relaytest.Prompt(1, 2)), wire.CodeRunNotAuthorized)
	old.Close()
	old.Close()
	envelopes, err := fresh.Next(ctx)
	must(t, err)
	equal(t, "pending", envelopes[0].Seq, 2)
}

func TestRH52_CommandsAreClaimedBySeq(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := attach(t, r, 0)
	refused(t, a, relaytest.Message(0, relaytest.Prompt(1, 1)), wire.CodeBadRequest)
	bad := relaytest.Prompt(1, 1)
	bad.Model = "model-z"
	refused(t, a, relaytest.Message(1, bad), wire.CodeRouteNotActive)
	applied(t, a, 1, relaytest.Prompt(1, 1)) // a refused command does not use its seq up
	applied(t, a, 1, relaytest.Prompt(1, 1))
	refused(t, a, relaytest.Message(1, relaytest.Interrupt(1, 1)), wire.CodeBadRequest)
	applied(t, a, 2, relaytest.Interrupt(1, 1))
	applied(t, a, 2, relaytest.Interrupt(1, 1))
	equal(t, "native starts", len(r.runtime.Started()), 1)
	equal(t, "native interrupts", len(r.runtime.Interrupted()), 1)
}

func TestRH54_CommandsBelongToTheAttachment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := attach(t, r, 0)
	prompt := func(change func(*wire.PromptRequest)) wire.CommandMessage {
		p := relaytest.Prompt(1, 1)
		change(p)
		return relaytest.Message(1, p)
	}
	refused(t, a, prompt(func(p *wire.PromptRequest) { p.Workspace.ID = "else" }), wire.CodeTargetMismatch)
	refused(t, a, prompt(func(p *wire.PromptRequest) { p.Workspace.TargetRef = "else" }), wire.CodeTargetMismatch)
	refused(t, a, prompt(func(p *wire.PromptRequest) { p.RunID = "else" }), wire.CodeRunNotAuthorized)
	foreign := relaytest.Message(1, relaytest.Prompt(1, 1))
	foreign.RunID = "else"
	refused(t, a, foreign, wire.CodeRunNotAuthorized)
	stop := relaytest.Interrupt(1, 1)
	stop.RunID = "else"
	refused(t, a, relaytest.Message(1, stop), wire.CodeRunNotAuthorized)
	refused(t, a, wire.CommandMessage{RunID: relaytest.Run, Seq: 1, Command: json.RawMessage(`{`)}, wire.CodeCommandInvalid)
	refused(t, a, relaytest.Message(1, map[string]any{"type": "prompt.request", "runId": relaytest.Run, "turnId": relaytest.TurnID(1), "prompt": "x"}), wire.CodeCommandInvalid)
	equal(t, "threads", r.runtime.Threads(), 0)
}

func TestAnInterruptBeforeAcceptanceIsForTheGatewayToRepeat(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := attach(t, r, 0)
	ack := a.Command(context.Background(), relaytest.Message(1, relaytest.Interrupt(1, 1)))
	equal(t, "code", ack.Error.Code, wire.CodeInterruptUnknown)
	equal(t, "turn", ack.TurnID, relaytest.TurnID(1))
	equal(t, "type", ack.CommandType, wire.TypeRunControl)
}

func TestAReceiverThatDoesNotAcknowledgeHoldsTheHostBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	thread, turn := r.started(0)
	for range 300 {
		r.runtime.Say(thread, turn, "x")
	}
	next(t, a, 192)
	impatient, cancel := context.WithCancel(ctx)
	waiting := make(chan error, 1)
	go func() {
		_, err := a.Next(impatient)
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	must(t, a.Acknowledge(ctx, 192))
	next(t, a, 301-192)
}

func TestNextMayBeCalledAgainAfterAFault(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, persisted := range []bool{false, true} {
		r := newRig(t)
		a := attach(t, r, 0)
		applied(t, a, 1, relaytest.Prompt(1, 1))
		thread, turn := r.started(0)
		next(t, a, 1)
		r.runtime.Say(thread, turn, "x")
		r.store.Fail(relaytest.AppendJournal, 0, persisted)
		_, err := a.Next(ctx)
		wantCode(t, err, wire.CodePersistFailed)
		envelopes, err := a.Next(ctx)
		must(t, err)
		equal(t, "seq", envelopes[0].Seq, 2)
		must(t, a.HandedOff(ctx, 2))
		r.runtime.End(thread, turn, relay.NativeCompleted)
		envelopes, err = a.Next(ctx)
		must(t, err)
		equal(t, "seq of the end", envelopes[0].Seq, 3)
		equal(t, "event", envelopes[0].Event, wire.EventTurnCompleted)
		r.store.Fail(relaytest.Advance, 0, persisted)
		wantCode(t, a.HandedOff(ctx, 3), wire.CodePersistFailed)
		must(t, a.HandedOff(ctx, 3))
		got, _ := r.turn(1, 1)
		equal(t, "terminal", got.TerminalProjected, true)
	}
}

func TestCloseEndsAttachments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	waiting := make(chan error, 1)
	go func() {
		_, err := a.Next(ctx)
		waiting <- err
	}()
	must(t, r.host.Close())
	wantCode(t, <-waiting, wire.CodeShuttingDown)
	refused(t, a, relaytest.Message(1, relaytest.Prompt(1, 1)), wire.CodeShuttingDown)
	_, err := r.host.Attach(ctx, relaytest.Attach(0), nil)
	wantCode(t, err, wire.CodeShuttingDown)
}

func TestHello(t *testing.T) {
	t.Parallel()
	h := newRig(t).host.Hello()
	equal(t, "host", h.HostID, "host")
	equal(t, "protocol", h.Protocols[0], wire.HostProtocol)
	equal(t, "capabilities", strings.Join(h.Capabilities, " "), "continue_from turn_context reasoning outcome steer")
}
