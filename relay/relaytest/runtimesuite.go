package relaytest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// RuntimeHarness is a relay.Runtime with the strings that a suite pulls. Turns run
// until they are told to end.
type RuntimeHarness interface {
	Runtime() relay.Runtime
	// Finish lets the turn that runs in a thread answer with text and complete. It
	// returns once the turn has ended.
	Finish(threadID, turnID, text string)
	// Restart closes the runtime as a crash would, as far as it can, and opens it
	// again on the same store.
	Restart()
}

// RuntimeSuite checks what the relay host relies on.
func RuntimeSuite(t *testing.T, open func(t *testing.T) RuntimeHarness) {
	for name, check := range map[string]func(*testing.T, RuntimeHarness){
		"threads":                       checkThreads,
		"RH35 accepted or not":          checkAccepted,
		"RH66 replays":                  checkReplays,
		"RH67 one active turn":          checkOneActive,
		"RH68 interrupt":                checkInterrupt,
		"RH69 events of a turn":         checkEvents,
		"steers that come too late":     checkSteers,
		"RH70 restart":                  checkRestart,
		"watching":                      checkWatch,
		"RH39 paging":                   checkPaging,
		"continuing a thread (trap 22)": checkContinue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

func suiteThread(t *testing.T, r relay.Runtime) string {
	t.Helper()
	id, err := r.CreateThread(context.Background(), relay.NewThread{
		Model: Model, ModelProvider: Provider, ModelProviderID: Provider, SystemPrompt: relay.SystemPrompt(nil),
	})
	suiteOK(t, err)
	return id
}

func suiteStart(threadID string, n int) relay.StartTurn {
	return relay.StartTurn{
		ThreadID: threadID, TurnID: "turn_" + Fingerprint(string(rune('a'+n))), OperationKey: OperationKey(n),
		Prompt: " look ", Model: Model, ModelProvider: Provider, ModelProviderID: Provider,
	}
}

func suiteOK(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func suiteStatus(t *testing.T, r relay.Runtime, s relay.StartTurn) (relay.NativeStatus, bool) {
	t.Helper()
	turn, ok, err := r.ReadTurn(context.Background(), s.ThreadID, s.TurnID)
	suiteOK(t, err)
	return turn.Status, ok
}

func suiteEvents(t *testing.T, r relay.Runtime, threadID string) []relay.NativeEvent {
	t.Helper()
	events, err := r.Events(context.Background(), threadID, 0, 10_000)
	suiteOK(t, err)
	return events
}

func checkThreads(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	id := suiteThread(t, r)
	if !wire.ValidNativeID(id) || len(id) < len("thr_")+32 {
		t.Fatalf("thread id %q has too few random bits", id)
	}
	suiteOK(t, r.ReadThread(ctx, id))
	if err := r.ReadThread(ctx, "thr_unknown"); wire.CodeOf(err) != wire.CodeNativeUnavailable {
		t.Fatalf("an unknown thread: %v", err)
	}
	suiteOK(t, r.DiscardThread(ctx, id))
	if r.ReadThread(ctx, id) == nil {
		t.Fatal("a discarded thread is there")
	}
	kept := suiteThread(t, r)
	s := suiteStart(kept, 1)
	suiteOK(t, r.StartTurn(ctx, s))
	if r.DiscardThread(ctx, kept) == nil {
		t.Fatal("a thread that owns a turn was discarded")
	}
	h.Finish(kept, s.TurnID, "x")
}

func checkAccepted(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	s := suiteStart(suiteThread(t, r), 1)
	if _, ok := suiteStatus(t, r, s); ok {
		t.Fatal("a turn that was never started is there")
	}
	blank := s
	blank.Prompt = " \n"
	if r.StartTurn(ctx, blank) == nil {
		t.Fatal("a blank prompt was accepted")
	}
	if _, ok := suiteStatus(t, r, s); ok {
		t.Fatal("a refused turn is there")
	}
	suiteOK(t, r.StartTurn(ctx, s))
	if status, ok := suiteStatus(t, r, s); !ok || !status.Live() {
		t.Fatalf("a started turn is %v, %v", status, ok)
	}
	h.Finish(s.ThreadID, s.TurnID, "x")
	if status, _ := suiteStatus(t, r, s); status != relay.NativeCompleted {
		t.Fatalf("a finished turn is %v", status)
	}
}

func checkReplays(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	s := suiteStart(suiteThread(t, r), 1)
	suiteOK(t, r.StartTurn(ctx, s))
	suiteOK(t, r.StartTurn(ctx, s))
	for name, change := range map[string]func(*relay.StartTurn){
		"prompt":  func(c *relay.StartTurn) { c.Prompt = "else" },
		"context": func(c *relay.StartTurn) { c.Context = "else" },
		"limit":   func(c *relay.StartTurn) { c.MaxOutputTokens = 5 },
		"turn":    func(c *relay.StartTurn) { c.TurnID = "turn_" + Fingerprint("9") },
	} {
		c := s
		change(&c)
		if err := r.StartTurn(ctx, c); wire.CodeOf(err) != wire.CodeOperationMismatch {
			t.Fatalf("a replay with another %s: %v", name, err)
		}
	}
	h.Finish(s.ThreadID, s.TurnID, "x")
	suiteOK(t, r.StartTurn(ctx, s))
	started := 0
	for _, e := range suiteEvents(t, r, s.ThreadID) {
		if e.Event == wire.EventTurnStarted {
			started++
		}
	}
	if started != 1 {
		t.Fatalf("%d turns were started", started)
	}
}

func checkOneActive(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	first := suiteStart(suiteThread(t, r), 1)
	suiteOK(t, r.StartTurn(ctx, first))
	second := suiteStart(first.ThreadID, 2)
	if r.StartTurn(ctx, second) == nil {
		t.Fatal("a second turn runs beside the first")
	}
	if _, ok := suiteStatus(t, r, second); ok {
		t.Fatal("a refused turn is there")
	}
	h.Finish(first.ThreadID, first.TurnID, "x")
	suiteOK(t, r.StartTurn(ctx, second))
	h.Finish(second.ThreadID, second.TurnID, "y")
}

func checkInterrupt(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	s := suiteStart(suiteThread(t, r), 1)
	suiteOK(t, r.StartTurn(ctx, s))
	suiteOK(t, r.InterruptTurn(ctx, s.ThreadID, s.TurnID))
	awaitEnd(t, r, s)
	if status, _ := suiteStatus(t, r, s); status != relay.NativeInterrupted {
		t.Fatalf("an interrupted turn is %v", status)
	}
	last := suiteEvents(t, r, s.ThreadID)
	if e := last[len(last)-1]; e.Event != wire.EventTurnCompleted || !strings.Contains(string(e.Payload), `"interrupted"`) {
		t.Fatalf("the last event is %s %s", e.Event, e.Payload)
	}
}

// awaitEnd waits until the ledger holds the turn's end.
func awaitEnd(t *testing.T, r relay.Runtime, s relay.StartTurn) {
	t.Helper()
	appended := make(chan struct{}, 1)
	stop := r.Watch(s.ThreadID, func() {
		select {
		case appended <- struct{}{}:
		default:
		}
	})
	defer stop()
	deadline := time.After(10 * time.Second)
	for {
		if slices.ContainsFunc(suiteEvents(t, r, s.ThreadID), func(e relay.NativeEvent) bool {
			return e.Event == wire.EventTurnCompleted && e.TurnID == s.TurnID
		}) {
			return
		}
		select {
		case <-appended:
		case <-deadline:
			t.Fatal("the turn has not ended")
		}
	}
}

func checkEvents(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	s := suiteStart(suiteThread(t, r), 1)
	suiteOK(t, r.StartTurn(ctx, s))
	h.Finish(s.ThreadID, s.TurnID, "grüße 🌍")
	var text strings.Builder
	var order []string
	last := uint64(0)
	for _, e := range suiteEvents(t, r, s.ThreadID) {
		if e.Seq <= last || e.ThreadID != s.ThreadID {
			t.Fatalf("event %d of %q follows on %d", e.Seq, e.ThreadID, last)
		}
		last = e.Seq
		if e.TurnID != "" && e.TurnID != s.TurnID {
			t.Fatalf("an event of a foreign turn %q", e.TurnID)
		}
		var delta wire.DeltaPayload
		if e.Event == wire.EventItemDelta {
			suiteOK(t, json.Unmarshal(e.Payload, &delta))
			if len(delta.Delta) > wire.MaxDeltaBytes {
				t.Fatalf("a delta of %d bytes", len(delta.Delta))
			}
			text.WriteString(delta.Delta)
		}
		if e.TurnID != "" && (len(order) == 0 || order[len(order)-1] != e.Event) {
			order = append(order, e.Event)
		}
	}
	if text.String() != "grüße 🌍" {
		t.Fatalf("the text is %q", text.String())
	}
	if order[0] != wire.EventTurnStarted || order[len(order)-1] != wire.EventTurnCompleted {
		t.Fatalf("the order is %v", order)
	}
	if n := len(slices.DeleteFunc(order, func(e string) bool { return e != wire.EventTurnCompleted })); n != 1 {
		t.Fatalf("%d ends", n)
	}
}

func checkRestart(t *testing.T, h RuntimeHarness) {
	ctx := context.Background()
	s := suiteStart(suiteThread(t, h.Runtime()), 1)
	suiteOK(t, h.Runtime().StartTurn(ctx, s))
	h.Restart()
	r := h.Runtime()
	if status, ok := suiteStatus(t, r, s); !ok || status.Live() {
		t.Fatalf("after a restart the turn is %v, %v", status, ok)
	}
	// Nobody has read the thread: its end is there by itself (trap 4).
	ends := slices.DeleteFunc(suiteEvents(t, r, s.ThreadID), func(e relay.NativeEvent) bool { return e.Event != wire.EventTurnCompleted })
	if len(ends) != 1 {
		t.Fatalf("%d ends after a restart", len(ends))
	}
	suiteOK(t, r.StartTurn(ctx, s))
	if status, _ := suiteStatus(t, r, s); status.Live() {
		t.Fatal("a replay after a restart has started the turn again")
	}
}

func checkWatch(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	s := suiteStart(suiteThread(t, r), 1)
	seen := make(chan int, 1024)
	stop := r.Watch(s.ThreadID, func() {
		// No lock is held: the callback may read.
		events, err := r.Events(ctx, s.ThreadID, 0, 10_000)
		if err == nil {
			seen <- len(events)
		}
	})
	other := make(chan struct{}, 1024)
	stopOther := r.Watch(suiteThread(t, r), func() { other <- struct{}{} })
	defer stopOther()
	suiteOK(t, r.StartTurn(ctx, s))
	if n := <-seen; n < 1 {
		t.Fatal("nothing was there when the callback was called")
	}
	h.Finish(s.ThreadID, s.TurnID, "x")
	total := len(suiteEvents(t, r, s.ThreadID))
	deadline := time.After(10 * time.Second)
	for n := 0; n < total; {
		select {
		case n = <-seen:
		case <-deadline:
			t.Fatalf("only %d of %d events were told", n, total)
		}
	}
	stop()
	if len(other) > 0 {
		t.Fatal("another thread was told")
	}
}

func checkPaging(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	s := suiteStart(suiteThread(t, r), 1)
	suiteOK(t, r.StartTurn(ctx, s))
	h.Finish(s.ThreadID, s.TurnID, "x")
	all := suiteEvents(t, r, s.ThreadID)
	var paged []relay.NativeEvent
	after := uint64(0)
	for {
		page, err := r.Events(ctx, s.ThreadID, after, 1)
		suiteOK(t, err)
		if len(page) == 0 {
			break
		}
		if len(page) > 1 {
			t.Fatalf("a page of %d", len(page))
		}
		paged = append(paged, page...)
		after = page[0].Seq
	}
	if len(paged) != len(all) {
		t.Fatalf("%d events by pages, %d at once", len(paged), len(all))
	}
	for i := range all {
		if all[i].Seq != paged[i].Seq || string(all[i].Payload) != string(paged[i].Payload) || !all[i].Timestamp.Equal(paged[i].Timestamp) {
			t.Fatalf("event %d differs", i)
		}
	}
}

func checkContinue(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	first := suiteStart(suiteThread(t, r), 1)
	suiteOK(t, r.StartTurn(ctx, first))
	h.Finish(first.ThreadID, first.TurnID, "x")
	next := relay.NewThread{Model: Model, ModelProvider: Provider, ModelProviderID: Provider, ContinueFrom: first.ThreadID}
	id, err := r.CreateThread(ctx, next)
	suiteOK(t, err)
	if id == first.ThreadID {
		t.Fatal("the thread is shared")
	}
	for _, e := range suiteEvents(t, r, id) {
		if e.TurnID != "" {
			t.Fatalf("an event of turn %q stands in the new thread", e.TurnID)
		}
	}
	next.ContinueFrom = "thr_unknown"
	if _, err := r.CreateThread(ctx, next); err == nil {
		t.Fatal("an unknown thread was continued")
	}
}
