package native_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH70_RestartSettlesWhatWasRunning(t *testing.T) {
	t.Parallel()
	client := hangs(thought("well"), text("half an ans"))
	h := newHost(t, client)
	running, asked, done := h.thread(), h.thread(), h.thread()
	client.play, client.calls = says(text("ok")).play, nil
	h.run(turnOf(done, 1))
	again := hangs(thought("well"), text("half an ans"))
	client.play = again.play
	h.start(turnOf(running, 1))
	h.await(running, "the partial answer", func(e []relay.NativeEvent) bool {
		got, _ := h.said(running, turnOf(running, 1).TurnID)
		return got != ""
	})
	// An interrupt that was stored, of a provider that does not listen.
	deaf := make(chan struct{})
	defer close(deaf)
	client.play = func(context.Context, provider.Request, func(provider.Delta) error) (provider.Result, error) {
		again.said <- struct{}{}
		<-deaf
		return provider.Result{}, errors.New("at last")
	}
	receive(t, again.said, "the first request")
	h.start(turnOf(asked, 1))
	receive(t, again.said, "the second request")
	if err := h.InterruptTurn(t.Context(), asked, turnOf(asked, 1).TurnID); err != nil {
		t.Fatal(err)
	}

	next := says(text("the rest"))
	c := h.crash(next)
	if n := len(next.requests()); n != 0 {
		t.Errorf("%d requests at open, want none", n)
	}
	got := c.end(running, turnOf(running, 1).TurnID)
	if got.Turn.Status != wire.NativeInterrupted || !got.Recovered || got.Outcome.Error != wire.CodeHostRestarted {
		t.Errorf("the running turn: %+v %+v recovered=%v", got.Turn, got.Outcome, got.Recovered)
	}
	got = c.end(asked, turnOf(asked, 1).TurnID)
	if got.Turn.Status != wire.NativeInterrupted || got.Outcome.Error != "" {
		t.Errorf("F22 the interrupted turn: %+v %+v, want no error: a person stopped it", got.Turn, got.Outcome)
	}
	if got := c.end(done, turnOf(done, 1).TurnID); got.Recovered {
		t.Error("a turn that had ended was settled again")
	}
	for _, thread := range []string{running, asked, done} {
		events := c.events(thread)
		for i := 1; i < len(events); i++ {
			if events[i].Seq <= events[i-1].Seq {
				t.Errorf("seq %d follows %d", events[i].Seq, events[i-1].Seq)
			}
		}
	}
	// The thread is open, and the partial answer is in its context.
	c.run(turnOf(running, 2))
	calls := next.requests()
	if len(calls) != 1 || len(calls[0].Messages) != 3 ||
		!strings.HasPrefix(calls[0].Messages[1].Text, "half an ans\n\n[") || calls[0].Messages[1].Reasoning != "" {
		t.Errorf("the next request: %+v", calls)
	}
	c.reopen()
	c.end(running, turnOf(running, 1).TurnID) // still once
}

func TestRH70_CloseSettlesWhatRuns(t *testing.T) {
	t.Parallel()
	client := hangs(text("half"))
	h := newHost(t, client)
	s := turnOf(h.thread(), 1)
	h.start(s)
	receive(t, client.said, "the request")
	h.close()
	h.open()
	c := h.end(s.ThreadID, s.TurnID)
	if c.Turn.Status != wire.NativeInterrupted || c.Recovered || c.Outcome.Error != wire.CodeHostRestarted {
		t.Errorf("end %+v %+v recovered=%v", c.Turn, c.Outcome, c.Recovered)
	}
	if got, _ := h.said(s.ThreadID, s.TurnID); got != "half" {
		t.Errorf("the ledger holds %q", got)
	}
}

func TestRH70_CloseLeavesToRecoveryWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	client := hangs()
	h := newHost(t, client)
	s := turnOf(h.thread(), 1)
	h.start(s)
	receive(t, client.said, "the request")
	failed := make(chan struct{}, 1)
	h.store.set(func(string) error {
		select {
		case failed <- struct{}{}:
		default:
		}
		return errDisk
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- h.Close(ctx) }()
	receive(t, failed, "the first failure")
	cancel()
	if err := <-closed; !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	wantCode(t, h.StartTurn(t.Context(), s), wire.CodeShuttingDown)
	h.reopen()
	if c := h.end(s.ThreadID, s.TurnID); !c.Recovered || c.Outcome.Error != wire.CodeHostRestarted {
		t.Errorf("end %+v %+v", c.Turn, c.Outcome)
	}
}

// Whoever closes the database under a runtime must not hang its Close.
func TestCloseAfterTheDatabaseWasClosed(t *testing.T) {
	t.Parallel()
	client := hangs()
	h := newHost(t, client)
	h.start(turnOf(h.thread(), 1))
	receive(t, client.said, "the request")
	if err := h.db.Close(); err != nil {
		t.Fatal(err)
	}
	h.close()
}

// A ledger that stays unwritable must not hang a turn for ever. Time passes in a
// bubble; the database is a stand-in for one whose disk is full.
func TestRH71_PatienceWithAFailingLedgerEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		client := hangs(text("unheard"))
		h := &host{t: t, path: filepath.Join(dir, "host.db"), driver: "sqlite3"}
		h.serve(client)
		h.open()
		s := turnOf(h.thread(), 1)
		h.store.set(func(step string) error {
			if step == "AppendDeltas" {
				return errDisk
			}
			return nil
		}, nil)
		begin := time.Now()
		h.start(s)
		c := h.end(s.ThreadID, s.TurnID)
		if c.Turn.Status != wire.NativeFailed || c.Outcome.Error != wire.CodeInternal {
			t.Errorf("end %+v %+v", c.Turn, c.Outcome)
		}
		if took := time.Since(begin); took < 9*time.Second || took > 12*time.Second {
			t.Errorf("the turn failed after %v", took)
		}
		h.close()
	})
}

func TestRH70_OrphansCannotBeStored(t *testing.T) {
	t.Parallel()
	h := newHost(t, says(text("ok")))
	thread := h.thread()
	for what, q := range map[string]string{
		"operation without a turn": `INSERT INTO native_operations VALUES ('` + strings.Repeat("a", 64) + `', '` + thread +
			`', 'turn_missing', '` + strings.Repeat("b", 64) + `', 0)`,
		"item without its turn": `INSERT INTO native_items VALUES ('item_1', '` + thread +
			`', 'turn_missing', 1, 'user_message', 'in_progress', 'x', '')`,
		"end without its event": `INSERT INTO native_turns (id, thread_id, round, status, input_summary, model, model_provider,
			model_provider_id, billing_surface, billing_mode, reasoning_effort, max_output_tokens, created_at, started_seq, ended_at)
			VALUES ('turn_x', '` + thread + `', 1, 'completed', '', 'm', 'p', 'p', '', '', '', 0, 0, 1, 1)`,
	} {
		err := h.db.Update(t.Context(), func(tx *sqldb.Tx) error {
			_, err := tx.Exec(t.Context(), q)
			return err
		})
		if err == nil {
			t.Errorf("%s was stored", what)
		}
	}
}

func TestRH71_WhatCannotBeTrustedIsNotOpened(t *testing.T) {
	t.Parallel()
	t.Run("newer schema", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, says(text("ok")))
		newer := fstest.MapFS{"9999_later.sql": {Data: []byte("-- +goose Up\nCREATE TABLE later (id INTEGER);\n")}}
		entries, err := relaysql.Migrations().(interface {
			ReadDir(string) ([]os.DirEntry, error)
		}).ReadDir(".")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			raw, err := relaysql.Migrations().(interface{ ReadFile(string) ([]byte, error) }).ReadFile(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			newer[e.Name()] = &fstest.MapFile{Data: raw}
		}
		if err := h.db.Migrate(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
		h.close()
		err = h.tryOpen()
		if !errors.Is(err, sqldb.ErrSchemaNewer) || !strings.Contains(err.Error(), h.path) || !strings.Contains(err.Error(), "newer release") {
			t.Errorf("opening: %v", err)
		}
	})
	t.Run("corrupt record", func(t *testing.T) {
		t.Parallel()
		client := hangs(text("half"))
		h := newHost(t, client)
		s := turnOf(h.thread(), 1)
		h.start(s)
		receive(t, client.said, "the request")
		h.await(s.ThreadID, "the delta", func(e []relay.NativeEvent) bool {
			return len(of(e, s.TurnID, wire.EventItemDelta)) > 0
		})
		h.execute(`UPDATE native_events SET payload = '{"kind":' WHERE event = 'item.delta'`)
		c := &host{t: t, path: filepath.Join(t.TempDir(), "host.db"), driver: "sqlite3", cfg: h.cfg}
		for _, suffix := range []string{"", "-wal"} {
			raw, err := os.ReadFile(h.path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(c.path+suffix, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // nothing is mended by trying
			err := c.tryOpen()
			wantCode(t, err, wire.CodeStoreUnavailable)
			if err == nil || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), "restore") {
				t.Errorf("opening: %v, want the file and what to do", err)
			}
			if msg := wire.AsError(err).Message; strings.Contains(msg, c.path) {
				t.Errorf("the message for people tells a path: %s", msg)
			}
		}
	})
}

func TestRH72_OneRuntimeAStore(t *testing.T) {
	t.Parallel()
	h := newHost(t, says(text("ok")))
	_, err := native.Open(t.Context(), h.cfg)
	wantCode(t, err, wire.CodeOwnerBusy)
	second := h.cfg
	second.Store = relaysql.NewNative(h.db)
	_, err = native.Open(t.Context(), second)
	wantCode(t, err, wire.CodeOwnerBusy)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := native.Open(t.Context(), second)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRH72_IdleConversationsAreEvicted(t *testing.T) {
	t.Parallel()
	client := says(text("ok"))
	h := newHost(t, client)
	reads := func() int {
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		return h.store.reads
	}
	busy := h.thread()
	waiting := hangs()
	client.play = waiting.play
	h.start(turnOf(busy, 1))
	receive(t, waiting.said, "the request")
	client.play = says(text("ok")).play

	var threads []string
	for range 9 {
		threads = append(threads, h.thread())
		h.run(turnOf(threads[len(threads)-1], 1))
	}
	before := reads()
	for _, thread := range threads[1:] { // the eight that are left
		h.run(turnOf(thread, 2))
	}
	if n := reads() - before; n != 0 {
		t.Errorf("%d of the eight latest conversations were read again", n)
	}
	before = reads()
	h.run(turnOf(threads[0], 2))
	if n := reads() - before; n != 1 {
		t.Errorf("the evicted conversation was read %d times, want once", n)
	}
	wantCode(t, h.StartTurn(t.Context(), turnOf(busy, 2)), wire.CodeTurnActive)
	close(waiting.release)
	h.end(busy, turnOf(busy, 1).TurnID)
	calls := client.requests()
	if last := calls[len(calls)-1]; len(last.Messages) != 3 {
		t.Errorf("the conversation that was read again has %d messages, want 3", len(last.Messages))
	}
}

func TestRunsOnTheFallbackDriver(t *testing.T) {
	t.Parallel()
	client := hangs(text("half"))
	h := newHost(t, client, func(h *host) { h.driver = "sqlite" })
	s := turnOf(h.thread(), 1)
	h.start(s)
	h.await(s.ThreadID, "the delta", func(e []relay.NativeEvent) bool {
		return len(of(e, s.TurnID, wire.EventItemDelta)) > 0
	})
	receive(t, client.said, "the request")
	c := h.crash(says(text("ok")))
	if got := c.end(s.ThreadID, s.TurnID); !got.Recovered {
		t.Errorf("end %+v", got)
	}
	c.run(turnOf(s.ThreadID, 2))
}
