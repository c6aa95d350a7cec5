package socket_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH47_AttachNamesTheHostAndBringsItsCatalog(t *testing.T) {
	t.Parallel()
	p := newControlRig(t).plane("plane")
	m := p.attach(41)
	if m.Runner == nil || m.Runner.ID != hostA || m.Runner.TargetRef != hostA || m.Runner.RuntimeVersion != "1.0.0" || m.Cursor == nil || *m.Cursor != 41 {
		t.Errorf("attached: %s", m.raw)
	}
	// RH48: the cursor seeds the sequence; RH60: no turn, a fixed time.
	e := p.untilEvent("runtime.catalog").Envelope
	if e.Seq != 42 || e.TurnID != "" || e.ThreadID != "" || e.Timestamp != "1970-01-01T00:00:00Z" ||
		!strings.HasPrefix(e.SourceEventID, "catalog_") || !strings.Contains(string(e.Payload), relaytest.Challenge) {
		t.Errorf("catalog: %+v", e)
	}
}

func TestRH53_APromptIsAnsweredOnceAndStreams(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	p.command(1, relaytest.Prompt(1, 1))
	ack := p.untilType("ack")
	if ack.Status != wire.AckApplied || ack.CommandSeq != 1 || ack.Command != wire.TypePromptRequest || ack.TurnID != relaytest.TurnID(1) {
		t.Errorf("ack: %s", ack.raw)
	}
	for _, text := range []string{"one ", "<two> & ", "three", "."} {
		r.provider.tell <- text
	}
	p.untilEvent("turn.completed")
	var text strings.Builder
	last := uint64(0)
	for _, m := range p.skipped {
		if m.Type != "event" {
			t.Errorf("came beside the events: %s", m.raw)
			continue
		}
		if m.Envelope.Seq != last+1 {
			t.Errorf("event %d after %d", m.Envelope.Seq, last)
		}
		last = m.Envelope.Seq
		if m.Envelope.Event == wire.EventItemDelta {
			text.WriteString(delta(t, m))
		}
	}
	if text.String() != "one <two> & three" {
		t.Errorf("text %q", text.String())
	}
}

func delta(t *testing.T, m pushed) string {
	t.Helper()
	var d wire.DeltaPayload
	if err := wire.DecodeStrict(m.Envelope.Payload, &d); err != nil {
		t.Fatal(err)
	}
	return d.Delta
}

func TestRH49_WhatIsAboveTheCursorComesAgainByteForByte(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	p.command(1, relaytest.Prompt(1, 1))
	p.untilType("ack")
	for _, text := range []string{"<one>\u2028", "two", "."} {
		r.provider.tell <- text
	}
	end := p.untilEvent("turn.completed")
	first := events(append(p.skipped, end))
	p.cursor(first[1].Envelope.Seq)
	p.pinged()
	_ = p.ws.CloseNow()

	again := r.plane("plane")
	again.attach(first[1].Envelope.Seq)
	end = again.untilEvent("turn.completed")
	second := events(append(again.skipped, end))
	if len(second) != len(first)-2 {
		t.Fatalf("%d events came again, of %d above the cursor", len(second), len(first)-2)
	}
	for i, m := range second {
		if m.raw != first[i+2].raw {
			t.Errorf("%s\ncame again as\n%s", first[i+2].raw, m.raw)
		}
	}
	// RH47: attached once more on the same connection it begins again from its cursor.
	again.skipped = nil
	again.attach(end.Envelope.Seq - 1)
	if m := again.untilEvent("turn.completed"); m.raw != end.raw {
		t.Errorf("%s\ncame again as\n%s", end.raw, m.raw)
	}
}

func events(all []pushed) []pushed {
	return slices.DeleteFunc(slices.Clone(all), func(m pushed) bool { return m.Type != "event" })
}

func TestRH52_ASequenceNumberStandsForOneCommand(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	for range 2 {
		p.command(1, relaytest.Prompt(1, 1))
		if ack := p.untilType("ack"); ack.Status != wire.AckApplied {
			t.Errorf("ack: %s", ack.raw)
		}
	}
	p.command(1, relaytest.Prompt(1, 2))
	if ack := p.untilType("ack"); ack.code() != wire.CodeBadRequest || ack.CommandSeq != 1 {
		t.Errorf("another command under the number: %s", ack.raw)
	}
	r.provider.tell <- "."
	p.untilEvent("turn.completed")
	if n := len(r.provider.begun); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
}

func TestRH37_AnInterruptStopsTheTurn(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	p.command(1, relaytest.Prompt(1, 1))
	p.untilType("ack")
	r.provider.tell <- "so far"
	p.untilEvent("item.delta")
	p.command(2, relaytest.Interrupt(1, 1))
	// The turn may have ended before the host has stored that this was asked for.
	var ack, end pushed
	for ack.Type == "" || end.Type == "" {
		m := p.until("the answer and the end", func(m pushed) bool {
			return m.Type == "ack" || m.Envelope.Event == "turn.completed"
		})
		if m.Type == "ack" {
			ack = m
		} else {
			end = m
		}
	}
	if ack.Status != wire.AckApplied || ack.Command != wire.TypeRunControl {
		t.Errorf("ack: %s", ack.raw)
	}
	if !strings.Contains(string(end.Envelope.Payload), `"status":"interrupted"`) {
		t.Errorf("end: %s", end.raw)
	}
}

// TestRH51_FaultsAreAnsweredAsTheHostWouldAndKeptFromIt asks the gateway and, with
// the same command, the host behind it.
func TestRH51_FaultsAreAnsweredAsTheHostWouldAndKeptFromIt(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	at := p.attachment(relaytest.Run, "another session", 0).Attach()
	at.AccountRef = "another account"
	direct, err := r.host.Attach(context.Background(), at, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	prompt := func(change func(*wire.PromptRequest)) any {
		c := relaytest.Prompt(1, 1)
		change(c)
		return c
	}
	blank, hurry := " ", "hurry"
	for name, command := range map[string]any{
		"four keys":                      map[string]any{"type": "prompt.request", "runId": relaytest.Run, "turnId": relaytest.TurnID(1), "prompt": "x"},
		"an approval":                    map[string]any{"type": "approval.decision", "runId": relaytest.Run, "gate": "g", "decision": "approved"},
		"no type":                        map[string]any{"runId": relaytest.Run},
		"no object":                      []int{1},
		"nothing":                        nil,
		"an unknown field":               map[string]any{"type": "run.control", "runId": relaytest.Run, "force": true},
		"another run":                    prompt(func(c *wire.PromptRequest) { c.RunID = "run_other" }),
		"another run, badly shaped":      prompt(func(c *wire.PromptRequest) { c.RunID, c.Prompt = "run_other", "" }),
		"another workspace":              prompt(func(c *wire.PromptRequest) { c.Workspace.ID = "other" }),
		"another target":                 prompt(func(c *wire.PromptRequest) { c.Workspace.TargetRef = hostAway }),
		"a blank prompt":                 prompt(func(c *wire.PromptRequest) { c.Prompt = blank }),
		"a prompt of 131,073 bytes":      prompt(func(c *wire.PromptRequest) { c.Prompt = strings.Repeat("x", wire.MaxPromptBytes+1) }),
		"a turn id that is none":         prompt(func(c *wire.PromptRequest) { c.TurnID = "local_turn_1" }),
		"an operation key of 129":        prompt(func(c *wire.PromptRequest) { c.OperationKey = strings.Repeat("k", 129) }),
		"a model that looks like a key":  prompt(func(c *wire.PromptRequest) { c.Model = "sk-1" }),
		"a tool":                         prompt(func(c *wire.PromptRequest) { c.AllowedTools = []string{"shell"} }),
		"another mode":                   prompt(func(c *wire.PromptRequest) { c.Mode = "agent" }),
		"an unknown effort":              prompt(func(c *wire.PromptRequest) { c.ReasoningEffort = &hurry }),
		"a blank system prompt":          prompt(func(c *wire.PromptRequest) { c.SystemPrompt = &blank }),
		"a picture that is none":         prompt(func(c *wire.PromptRequest) { c.Images = []wire.Image{{Mime: "image/png", DataBase64: "AAAA"}} }),
		"a control that is not a stop":   &wire.RunControl{Type: wire.TypeRunControl, RunID: relaytest.Run, Action: "cancel", Reason: "x", TurnID: relaytest.TurnID(1), RuntimeBindingID: "b", RuntimeThreadID: relaytest.ThreadID(1)},
		"a control with a blank reason":  &wire.RunControl{Type: wire.TypeRunControl, RunID: relaytest.Run, Action: "interrupt", Reason: blank, TurnID: relaytest.TurnID(1), RuntimeBindingID: "b", RuntimeThreadID: relaytest.ThreadID(1)},
		"a control of another run":       &wire.RunControl{Type: wire.TypeRunControl, RunID: "run_other", Action: "interrupt", Reason: "x", TurnID: relaytest.TurnID(1), RuntimeBindingID: "b", RuntimeThreadID: relaytest.ThreadID(1)},
		"a control of a binding unnamed": &wire.RunControl{Type: wire.TypeRunControl, RunID: relaytest.Run, Action: "interrupt", Reason: "x", TurnID: relaytest.TurnID(1), RuntimeBindingID: "..", RuntimeThreadID: relaytest.ThreadID(1)},
	} {
		p.command(7, command)
		got := p.untilType("ack")
		want := direct.Command(context.Background(), relaytest.Message(7, command))
		if want.Status != wire.AckFailed || got.Status != wire.AckFailed || got.CommandSeq != 7 || got.Error == nil {
			t.Errorf("%s: gateway %s, host %+v", name, got.raw, want)
			continue
		}
		if got.Error.Code != want.Error.Code || got.Error.Message != want.Error.Message || got.Command != want.CommandType || got.TurnID != want.TurnID {
			t.Errorf("%s: gateway %s, host %+v %+v", name, got.raw, want, want.Error)
		}
	}
	if n := r.seen(); n > 0 {
		t.Errorf("the host saw %d commands", n)
	}
	p.command(1, relaytest.Prompt(1, 1))
	p.untilType("ack")
	if r.seen() != 1 {
		t.Error("a good command is not forwarded")
	}
}

func TestRH51_ARunThatIsNotAttachedTakesNoCommand(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.command(1, relaytest.Prompt(1, 1))
	if ack := p.untilType("ack"); ack.code() != wire.CodeRunNotAuthorized || ack.CommandSeq != 1 {
		t.Errorf("ack: %s", ack.raw)
	}
	// What concerns no command of it is no fault.
	p.cursor(3)
	p.write(`{"type":"detach","runId":"` + relaytest.Run + `"}`)
	p.pinged()
	if len(p.skipped) > 0 || r.seen() > 0 {
		t.Errorf("answered %v, forwarded %d", p.skipped, r.seen())
	}
	p.attach(0)
	p.write(`{"type":"detach","runId":"` + relaytest.Run + `"}`)
	p.command(2, relaytest.Prompt(1, 1))
	if ack := p.untilType("ack"); ack.code() != wire.CodeRunNotAuthorized || ack.CommandSeq != 2 {
		t.Errorf("after detach: %s", ack.raw)
	}
}

func TestRH51_FramesThatAreNoneAreAnsweredAndTheSocketStaysOpen(t *testing.T) {
	t.Parallel()
	p := newControlRig(t).plane("plane")
	p.attach(0)
	for name, c := range map[string]struct{ raw, want string }{
		"empty":           {``, `{"ok":false,"error":{"code":"bad_request"`},
		"no JSON":         {`{"type":`, `{"ok":false,"error":{"code":"bad_request"`},
		"a key twice":     {`{"type":"ping","type":"ping"}`, `{"ok":false,"error":{"code":"bad_request"`},
		"no type":         {`{"runId":"r"}`, `{"ok":false,"error":{"code":"bad_request"`},
		"an account's":    {`{"id":"1","type":"threads.list"}`, `{"ok":false,"error":{"code":"bad_request"`},
		"unknown field":   {`{"type":"cursor","runId":"r","cursor":1,"x":1}`, `{"ok":false,"error":{"code":"bad_request"`},
		"with its id":     {`{"id":"7","type":"cursor","runId":"r","cursor":-1}`, `{"re":"7","ok":false,"error":{"code":"bad_request"`},
		"an id too long":  {`{"id":"` + strings.Repeat("x", 65) + `","type":"ping"}`, `{"re":"` + strings.Repeat("x", 65) + `","ok":false,"error":{"code":"bad_request"`},
		"a bad run":       {`{"type":"detach","runId":".."}`, `{"ok":false,"error":{"code":"relay_command_invalid"`},
		"a bad attach":    {`{"type":"attach","runId":"r"}`, `{"type":"refused","runId":"r","error":{"code":"bad_request"`},
		"a seq of 0":      {`{"type":"command","runId":"r","seq":0,"command":{}}`, `{"ok":false,"error":{"code":"bad_request"`},
		"no command":      {`{"type":"command","runId":"r","seq":1}`, `{"type":"ack","runId":"r","commandSeq":1,"commandType":"","status":"failed","error":{"code":"bad_request"`},
		"a ping":          {`{"type":"ping"}`, `{"ok":true,"serverTime":"2026-01-02T12:00:00.000Z"`},
		"a ping with id":  {`{"type":"ping","id":"p"}`, `{"re":"p","ok":true,"serverTime":"2026-01-02T12:00:00.000Z"`},
		"a detach, named": {`{"type":"detach","runId":"r","id":"d"}`, `{"re":"d","ok":true`},
	} {
		p.write(c.raw)
		got := p.until("an answer", func(m pushed) bool { return m.Type != "event" })
		if !strings.HasPrefix(got.raw, c.want) {
			t.Errorf("%s: %s", name, got.raw)
		}
	}
	if err := p.ws.Write(context.Background(), websocket.MessageBinary, []byte(`{"type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	if m := p.read(); m.code() != wire.CodeBadRequest {
		t.Errorf("binary: %s", m.raw)
	}
}

func TestControl_AttachWithAnIdIsAnsweredUnderItToo(t *testing.T) {
	t.Parallel()
	p := newControlRig(t).plane("plane")
	at := p.attachment(relaytest.Run, relaytest.Session, 0)
	at.ID = "a1"
	p.say(at)
	p.until("the reply", func(m pushed) bool { return m.Re == "a1" && m.OK != nil && *m.OK })
	at.TargetRef = "target_unknown"
	p.say(at)
	if m := p.untilType("refused"); m.code() != wire.CodeNotFound {
		t.Errorf("refused: %s", m.raw)
	}
	if m := p.read(); m.Re != "a1" || m.code() != wire.CodeNotFound {
		t.Errorf("reply: %s", m.raw)
	}
}

func TestControl_BeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	get := func(header http.Header) (*http.Response, error) {
		_, res, err := r.tryPlane(header)
		return res, err
	}
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"no credential":          {http.Header{}, 401},
		"an unknown token":       {bearer("nobody"), 401},
		"a session":              {http.Header{"Cookie": {"s=ann"}, "Origin": {origin}}, 401},
		"a token for the chat":   {bearer("bob"), 403},
		"a token for the admin":  {bearer("meter"), 403},
		"a token without target": {bearer("bare"), 101},
	} {
		if res, err := get(c.header); res == nil || res.StatusCode != c.status {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	_, res, err := websocket.Dial(context.Background(), r.rig.http.URL, &websocket.DialOptions{
		Subprotocols: []string{socket.Protocol}, HTTPHeader: bearer("plane"),
	})
	if err == nil || res == nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("another subprotocol: %v, %v", res, err)
	}
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, r.rig.http.URL, nil)
	req.Header = bearer("plane")
	res, err = http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("no upgrade: %v, %v", res, err)
	}
	_ = res.Body.Close()
}

// TestSQ41_AControlPlaneReachesWhatItsTokenNames: what a token does not name is
// answered byte for byte as what does not exist.
func TestSQ41_AControlPlaneReachesWhatItsTokenNames(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	refusal := func(p *plane, change func(*wire.ControlAttach)) pushed {
		t.Helper()
		at := p.attachment(relaytest.Run, relaytest.Session, 0)
		change(at)
		p.say(at)
		return p.until("an answer", func(m pushed) bool { return m.Type == "attached" || m.Type == "refused" })
	}
	p := r.plane("plane")
	bare := r.plane("bare")
	nowhere := refusal(p, func(a *wire.ControlAttach) { a.TargetRef = "target_unknown" })
	for name, m := range map[string]pushed{
		"a host that the token does not name": refusal(bare, func(*wire.ControlAttach) {}),
		"one that is away":                    refusal(bare, func(a *wire.ControlAttach) { a.TargetRef = hostAway }),
		"one for another account":             refusal(bare, func(a *wire.ControlAttach) { a.AccountRef = "acc-rival" }),
	} {
		if m.raw != nowhere.raw || m.code() != wire.CodeNotFound {
			t.Errorf("%s: %s\nin place of %s", name, m.raw, nowhere.raw)
		}
	}
	for name, c := range map[string]struct {
		change func(*wire.ControlAttach)
		code   wire.Code
	}{
		"another account":        {func(a *wire.ControlAttach) { a.AccountRef = "acc-rival" }, wire.CodeForbidden},
		"a session of the chat":  {func(a *wire.ControlAttach) { a.SessionID = gateway.ChatSession + "x" }, wire.CodeForbidden},
		"a run of the chat":      {func(a *wire.ControlAttach) { a.RunID = chatRun }, wire.CodeForbidden},
		"a host that is away":    {func(a *wire.ControlAttach) { a.TargetRef = hostAway }, wire.CodeHostOffline},
		"an account of no form":  {func(a *wire.ControlAttach) { a.AccountRef = " x" }, wire.CodeOwnerInvalid},
		"a challenge of no form": {func(a *wire.ControlAttach) { a.Challenge = "short" }, wire.CodeBadRequest},
	} {
		if m := refusal(p, c.change); m.code() != c.code || m.Error.Retryable != (c.code == wire.CodeHostOffline) {
			t.Errorf("%s: %s", name, m.raw)
		}
	}

	p.attach(0)
	rival := r.plane("rival")
	if m := refusal(rival, func(*wire.ControlAttach) {}); m.code() != wire.CodeForbidden {
		t.Errorf("a run that another account holds: %s", m.raw)
	}
	// The host itself keeps the scope for its owner (RH6), also while nobody holds it.
	p.write(`{"type":"detach","runId":"` + relaytest.Run + `"}`)
	p.pinged()
	if m := refusal(rival, func(a *wire.ControlAttach) { a.RunID = "run_rival" }); m.code() != wire.CodeOwnerMismatch {
		t.Errorf("a session of another account: %s", m.raw)
	}
	rival.command(1, relaytest.Prompt(1, 1))
	if m := rival.untilType("ack"); m.code() != wire.CodeRunNotAuthorized {
		t.Errorf("a command into another's run: %s", m.raw)
	}
}

func TestRH47_ANewerConnectionOfTheAccountTakesTheRunOver(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	older := r.plane("plane")
	older.attach(0)
	older.command(1, relaytest.Prompt(1, 1))
	older.untilType("ack")
	newer := r.plane("twin")
	newer.attach(0)
	if m := older.untilType("refused"); m.code() != gateway.CodeSuperseded || m.Error.Retryable {
		t.Errorf("the older is told %s", m.raw)
	}
	r.provider.tell <- "to the newer"
	newer.untilEvent("item.delta")
	older.skipped = nil
	older.command(2, relaytest.Interrupt(1, 1))
	if m := older.untilType("ack"); m.code() != wire.CodeRunNotAuthorized {
		t.Errorf("the older commands: %s", m.raw)
	}
	older.pinged()
	if got := events(older.skipped); len(got) > 0 {
		t.Errorf("the older still gets %s", got[0].raw)
	}
}

func TestRH47_AHostThatGoesAndReturns(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	p.command(1, relaytest.Prompt(1, 1))
	p.untilType("ack")
	r.provider.tell <- "before "
	first := p.untilEvent("item.delta")
	r.link.stop()
	if m := p.untilType("refused"); m.code() != wire.CodeHostOffline || !m.Error.Retryable {
		t.Errorf("the host has gone: %s", m.raw)
	}
	p.command(2, relaytest.Interrupt(1, 1))
	if m := p.untilType("ack"); m.code() != wire.CodeRunNotAuthorized || m.CommandSeq != 2 {
		t.Errorf("a command meanwhile: %s", m.raw)
	}
	p.say(p.attachment(relaytest.Run, relaytest.Session, first.Envelope.Seq))
	if m := p.untilType("refused"); m.code() != wire.CodeHostOffline {
		t.Errorf("attach meanwhile: %s", m.raw)
	}
	r.provider.tell <- "between "
	r.connect(t)
	p.skipped = nil
	p.attach(first.Envelope.Seq)
	r.provider.tell <- "after"
	r.provider.tell <- "."
	p.untilEvent("turn.completed")
	var text strings.Builder
	for i, m := range events(p.skipped) {
		if want := first.Envelope.Seq + 1 + uint64(i); m.Envelope.Seq != want {
			t.Errorf("event %d in place of %d", m.Envelope.Seq, want)
		}
		if m.Envelope.Event == wire.EventItemDelta {
			text.WriteString(delta(t, m))
		}
	}
	if text.String() != "between after" {
		t.Errorf("text %q", text.String())
	}
}
