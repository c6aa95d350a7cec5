package relay_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// stateFixture is a state file of the reference, as a tree that a test can change.
func stateFixture() map[string]any {
	turn := func(n int, terminal bool) map[string]any {
		return map[string]any{
			"nativeTurnId":         "turn_" + relaytest.TurnID(n),
			"operationFingerprint": strings.ToUpper(wire.Fingerprint(relaytest.OperationKey(n))),
			"requestFingerprint":   relaytest.Fingerprint("b"),
			"terminalProjected":    terminal, "startRejected": false,
		}
	}
	binding := func(n int, turns map[string]any) map[string]any {
		return map[string]any{
			"runId": relaytest.Run, "runtimeBindingId": relaytest.BindingID(n), "virtualThreadId": relaytest.ThreadID(n),
			"nativeThreadId": "thr_0000000" + string(rune('0'+n)), "model": relaytest.Model,
			"modelProvider": relaytest.Provider, "modelProviderId": relaytest.Provider,
			"firstOperationFingerprint": wire.Fingerprint(relaytest.OperationKey(n)),
			"systemPromptFingerprint":   nil, "turns": turns, "projectedNativeSeq": 41,
		}
	}
	return map[string]any{
		"schemaVersion":         2,
		"ownerScopeFingerprint": wire.OwnerFingerprint(relaytest.Account, relaytest.Target, relaytest.Session),
		"bindings": []any{
			binding(1, map[string]any{relaytest.TurnID(1): turn(1, true)}),
			binding(2, map[string]any{relaytest.TurnID(2): turn(2, false)}),
		},
	}
}

func writeState(t *testing.T, folder string, state any) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), folder)
	must(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "runtime-chat-bindings.json")
	raw, ok := state.([]byte)
	if !ok {
		var err error
		raw, err = json.Marshal(state)
		must(t, err)
	}
	must(t, os.WriteFile(path, raw, 0o600))
	return path
}

func importRequest(path string) relay.ImportRequest {
	return relay.ImportRequest{Path: path, Target: relaytest.Target, Session: relaytest.Session, Account: relaytest.Account}
}

func TestImportState(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	path := writeState(t, scopeKey(), stateFixture())
	got, err := relay.ImportState(ctx, r.store, importRequest(path))
	must(t, err)
	equal(t, "imported", got, relay.Imported{ScopeKey: scopeKey(), Bindings: 2, Turns: 2, Unsettled: 1})
	b, ok := r.binding(2)
	equal(t, "binding found", ok, true)
	equal(t, "cursor", b.ProjectedSeq, 41)
	turn, _ := r.turn(1, 1)
	equal(t, "fingerprints in lower case", turn.OperationFingerprint, wire.Fingerprint(relaytest.OperationKey(1)))
	s := r.scope()
	wantCode(t, s.BindAccount(ctx, "someone else", relaytest.Target), wire.CodeOwnerMismatch)
	must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
	wantCode(t, s.AuthorizeRun(ctx, "run_other"), wire.CodeOtherRunUnsettled)
	before := dump(t, r)
	_, err = relay.ImportState(ctx, r.store, importRequest(path))
	wantCode(t, err, wire.CodeStateUntrusted)
	equal(t, "state after a second import", dump(t, r), before)
}

func TestRH3_AnUntrustedStateFileIsRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	first := func(s map[string]any) map[string]any { return s["bindings"].([]any)[0].(map[string]any) }
	second := func(s map[string]any) map[string]any { return s["bindings"].([]any)[1].(map[string]any) }
	firstTurn := func(s map[string]any) map[string]any {
		return first(s)["turns"].(map[string]any)[relaytest.TurnID(1)].(map[string]any)
	}
	for name, change := range map[string]func(s map[string]any){
		"no schema version":         func(s map[string]any) { delete(s, "schemaVersion") },
		"another schema version":    func(s map[string]any) { s["schemaVersion"] = 3 },
		"an unknown field":          func(s map[string]any) { s["extra"] = 1 },
		"an unknown binding field":  func(s map[string]any) { first(s)["extra"] = 1 },
		"an unknown turn field":     func(s map[string]any) { firstTurn(s)["extra"] = 1 },
		"bindings without an owner": func(s map[string]any) { delete(s, "ownerScopeFingerprint") },
		"an owner that is no hash":  func(s map[string]any) { s["ownerScopeFingerprint"] = "abc" },
		"a missing id":              func(s map[string]any) { delete(first(s), "runId") },
		"an invalid id":             func(s map[string]any) { first(s)["runtimeBindingId"] = "a..b" },
		"an unsafe model":           func(s map[string]any) { first(s)["model"] = "sk-abc" },
		"an unsafe route":           func(s map[string]any) { first(s)["modelProvider"] = "workspace" },
		"an invalid native id":      func(s map[string]any) { first(s)["nativeThreadId"] = "thr-1" },
		"an invalid fingerprint":    func(s map[string]any) { firstTurn(s)["requestFingerprint"] = "xyz" },
		"an invalid turn id":        func(s map[string]any) { first(s)["turns"] = map[string]any{"turn": firstTurn(s)} },
		"a rejected unsettled turn": func(s map[string]any) { firstTurn(s)["terminalProjected"], firstTurn(s)["startRejected"] = false, true },
		"a negative cursor":         func(s map[string]any) { first(s)["projectedNativeSeq"] = -1 },
		"a shared binding id":       func(s map[string]any) { second(s)["runtimeBindingId"] = relaytest.BindingID(1) },
		"a shared virtual thread":   func(s map[string]any) { second(s)["virtualThreadId"] = relaytest.ThreadID(1) },
		"a shared native thread":    func(s map[string]any) { second(s)["nativeThreadId"] = first(s)["nativeThreadId"] },
		"a shared operation": func(s map[string]any) {
			first(s)["turns"].(map[string]any)[relaytest.TurnID(8)] = firstTurn(s)
		},
	} {
		t.Run("RH3 "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			state := stateFixture()
			change(state)
			path := writeState(t, "old", state)
			raw, err := os.ReadFile(path)
			must(t, err)
			_, err = relay.ImportState(ctx, r.store, importRequest(path))
			wantCode(t, err, wire.CodeStateUntrusted)
			if !contains(wire.AsError(err).Message, "not changed") {
				t.Fatalf("the error does not say what became of the file: %v", err)
			}
			after, err := os.ReadFile(path)
			must(t, err)
			equal(t, "the file", string(after), string(raw))
			equal(t, "the store", dump(t, r), "")
		})
	}
	for name, text := range map[string]string{
		"a repeated key":   `{"schemaVersion":2,"schemaVersion":2}`,
		"a wrong case":     `{"SchemaVersion":2}`,
		"text behind it":   `{"schemaVersion":2} x`,
		"half a file":      `{"schemaVersion":2`,
		"a lone surrogate": `{"schemaVersion":2,"ownerScopeFingerprint":"\ud800"}`,
	} {
		t.Run("RH3 "+name, func(t *testing.T) {
			t.Parallel()
			_, err := relay.ImportState(ctx, newRig(t).store, importRequest(writeState(t, "old", []byte(text))))
			wantCode(t, err, wire.CodeStateUntrusted)
		})
	}
	t.Run("RH3 whose it is", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		request := importRequest(writeState(t, wire.ScopeKey(relaytest.Target, "other"), stateFixture()))
		_, err := relay.ImportState(ctx, r.store, request)
		wantCode(t, err, wire.CodeOwnerMismatch)
		request = importRequest(writeState(t, "old", stateFixture()))
		request.Account = "someone else"
		_, err = relay.ImportState(ctx, r.store, request)
		wantCode(t, err, wire.CodeOwnerMismatch)
		request.Session = ""
		_, err = relay.ImportState(ctx, r.store, request)
		wantCode(t, err, wire.CodeOwnerInvalid)
		_, err = relay.ImportState(ctx, r.store, importRequest(filepath.Join(t.TempDir(), "none.json")))
		wantCode(t, err, wire.CodeStoreUnavailable)
	})
}
