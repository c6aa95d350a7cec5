package wire_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH1_ScopeKeysAreStableDistinctAndTellNothing(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^scope-[0-9a-f]{64}$`)
	component := rapid.StringMatching(`[a-z0-9:_.-]{1,40}`).Filter(wire.ValidOwnerComponent)
	rapid.Check(t, func(t *rapid.T) {
		t1, s1 := component.Draw(t, "target"), component.Draw(t, "session")
		t2, s2 := component.Draw(t, "other target"), component.Draw(t, "other session")
		key := wire.ScopeKey(t1, s1)
		if !form.MatchString(key) || key != wire.ScopeKey(t1, s1) {
			t.Fatalf("key %q", key)
		}
		if same := t1 == t2 && s1 == s2; same != (key == wire.ScopeKey(t2, s2)) {
			t.Fatalf("(%q,%q) and (%q,%q) share a key: %v", t1, s1, t2, s2, !same)
		}
		if len(t1) > 8 && strings.Contains(key, t1) || len(s1) > 8 && strings.Contains(key, s1) {
			t.Fatalf("%q tells its owner", key)
		}
	})
}

func TestRH1_OwnerComponents(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"a": true, "account with spaces": true, "é雪": true, strings.Repeat("x", 512): true,
		"": false, " a": false, "a\n": false, "\u00a0a": false, "a\x00b": false, "a\xff": false,
		strings.Repeat("x", 513): false, strings.Repeat("é", 257): false,
	} {
		if got := wire.ValidOwnerComponent(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestRH15_Challenges(t *testing.T) {
	t.Parallel()
	if c := wire.NewChallenge(); !wire.ValidChallenge(c) || c == wire.NewChallenge() {
		t.Errorf("made challenge %q", c)
	}
	for s, want := range map[string]bool{
		strings.Repeat("a", 32): true, strings.Repeat("-", 128): true, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-0123": true,
		"": false, strings.Repeat("a", 31): false, strings.Repeat("a", 129): false,
		strings.Repeat("a", 31) + ".": false, strings.Repeat("a", 31) + "é": false,
	} {
		if got := wire.ValidChallenge(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestRH17_ModelsAreSafeSortedAndUnique(t *testing.T) {
	t.Parallel()
	names := []string{"b", "a/x", "B", "b", "sk-live", "llama3:8", "", "a", "~/.ssh/x", "qwen2.5:7b", "a"}
	want := []string{"B", "a", "a/x", "b", "qwen2.5:7b"}
	if got := wire.SafeModelIDs(names); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := wire.SafeModelIDs([]string{"sk-live"}); got == nil || len(got) != 0 {
		t.Errorf("nothing safe gives %#v", got)
	}
}

// RH18 needs names that cannot carry an address or a key.
func TestRH18_RH19_RH21_WhatLooksPrivateIsNoModelID(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-zA-Z0-9]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		digits := rapid.StringMatching(`[0-9]{1,5}`).Draw(t, "port")
		for _, s := range []string{
			"/" + a, "~/" + a, "./" + a, "../" + a, a + "/../" + b, a + "://" + b, a + "/home/" + b, a + "/Users/" + b,
			"redacted-" + a, a + ":" + digits, a + "." + b + ":" + digits + "/" + a, a + "@" + b, a + " " + b, a + "\\" + b,
			"sk-" + a, "GHP_" + a, a + ":hf_" + b, a + "token:" + b, a + "-api-key:" + b, a + "/.ssh/" + b,
			a + "/Workspace", "tmp/" + a, a + "\x00", a + "é", strings.Repeat("a", 257), "-" + a, "." + a, a + "\t",
		} {
			if wire.ValidModelID(s) {
				t.Fatalf("%q is taken", s)
			}
		}
	})
}

func TestRH20_RouteIDs(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"openai": true, "my-provider_2.x": true, "A": true, strings.Repeat("r", 128): true,
		"": false, strings.Repeat("r", 129): false, "a:b": false, "a/b": false, "a+b": false, "workspace": false,
		"Relative": false, "sk-x": false, "eyJx": false, "redacted-1": false, "_x": false,
	} {
		if got := wire.ValidRouteID(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestRH21_LabelFilter(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"kimi-k3": true, "token": true, "mytoken": true, "tokenizer:v1": true, "desk-lamp": true, "secretary/x": true,
		"a/desk-": true, "model.v1+fast": true, "x/tmpfile": true,
		"token:x": false, "my-api-key:1x": false, "A-PASSWD:v": false, "x:sk-1": false, "akiax": false, "AIzaSy": false,
		"x/secrets/y": false, "x/./y": false, "x/.config/y": false, "d:/x": false, "xoxb-1": false, "github_pat_1": false,
	} {
		if got := wire.ValidModelID(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestRH41_SourceEventIDs(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^native_event_[a-z0-9_]{64}$`)
	thread := rapid.StringMatching(`thr_[0-9a-f]{8,32}`)
	rapid.Check(t, func(t *rapid.T) {
		thr1, thr2 := thread.Draw(t, "thread"), thread.Draw(t, "other")
		seq1, seq2 := rapid.Uint64().Draw(t, "seq"), rapid.Uint64().Draw(t, "other seq")
		id := wire.SourceEventID(thr1, seq1)
		if len(id) != 77 || !form.MatchString(id) || strings.Contains(id, thr1) {
			t.Fatalf("id %q", id)
		}
		if same := thr1 == thr2 && seq1 == seq2; same != (id == wire.SourceEventID(thr2, seq2)) {
			t.Fatalf("ids of (%s,%d) and (%s,%d)", thr1, seq1, thr2, seq2)
		}
	})
}

func TestNewIDsAreValidAndDistinct(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make  func() string
		valid func(string) bool
	}{
		"virtual thread": {wire.NewVirtualThreadID, wire.ValidVirtualThreadID},
		"virtual turn":   {wire.NewVirtualTurnID, wire.ValidVirtualTurnID},
		"native thread":  {func() string { return wire.NewNativeID("thr") }, wire.ValidNativeID},
	} {
		seen := map[string]bool{}
		for range 1000 {
			id := c.make()
			if !c.valid(id) || seen[id] {
				t.Fatalf("%s: %q", name, id)
			}
			seen[id] = true
		}
	}
	if id := wire.NewNativeID("thr"); !regexp.MustCompile(`^thr_[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("native id %q", id)
	}
}

func TestFingerprintsAreReadInEitherCase(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		strings.Repeat("a", 64): true, strings.Repeat("F", 64): true, wire.Fingerprint(""): true,
		strings.Repeat("a", 63): false, strings.Repeat("g", 64): false, "": false,
	} {
		if got := wire.ValidFingerprint(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
