package relay_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH1_AScopeLivesUnderAHashOfItsPair(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.scope()
	equal(t, "key", s.Key(), wire.ScopeKey(relaytest.Target, relaytest.Session))
	if strings.Contains(s.Key(), relaytest.Target) || strings.Contains(s.Key(), relaytest.Session) {
		t.Fatalf("the key %q tells the pair", s.Key())
	}
	again := r.scope()
	equal(t, "key of the same pair", again.Key(), s.Key())
	other := r.scopeOf("another session")
	if other.Key() == s.Key() {
		t.Fatal("two sessions share a scope")
	}
	if !s.Is(relaytest.Target, relaytest.Session) || s.Is(relaytest.Target, "another session") || s.Is(relaytest.Session, relaytest.Target) {
		t.Fatal("a scope is not exactly its pair")
	}
	for _, pair := range [][2]string{{"", "s"}, {"t", ""}, {" t", "s"}, {"t", "s\x00"}, {"t", strings.Repeat("s", 513)}} {
		_, err := r.host.Scope(context.Background(), pair[0], pair[1])
		wantCode(t, err, wire.CodeOwnerInvalid)
	}
	equal(t, "folders", len(scopeFolders(t, r.dir)), 2)
}

func scopeFolders(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "scope-*"))
	must(t, err)
	return found
}

func TestRH2_OneOwnerAFolder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH2 modes are narrowed and a second holder is refused", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "host")
		must(t, os.MkdirAll(dir, 0o755))
		lock := filepath.Join(dir, "runtime-chat.owner.lock")
		must(t, os.WriteFile(lock, nil, 0o644))
		owner, err := relay.Own(ctx, dir)
		must(t, err)
		equal(t, "folder mode", modeOf(t, dir), 0o700)
		equal(t, "lock mode", modeOf(t, lock), 0o600)
		_, err = relay.Own(ctx, dir)
		wantCode(t, err, wire.CodeOwnerBusy)
		must(t, owner.Release())
		must(t, owner.Release())
		owner, err = relay.Own(ctx, dir)
		must(t, err)
		must(t, owner.Release())
	})
	t.Run("RH2 a lock that is dropped within the wait is taken", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		for range 20 {
			owner, err := relay.Own(ctx, dir)
			must(t, err)
			done := make(chan error, 1)
			go func() { done <- owner.Release() }()
			next, err := relay.Own(ctx, dir)
			must(t, <-done)
			must(t, err)
			must(t, next.Release())
		}
	})
	t.Run("RH2 anything but a regular file is an I/O fault", func(t *testing.T) {
		t.Parallel()
		for name, plant := range map[string]func(lock string) error{
			"link": func(lock string) error {
				target := filepath.Join(filepath.Dir(lock), "elsewhere")
				return errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink(target, lock))
			},
			"dangling link": func(lock string) error { return os.Symlink("nowhere", lock) },
			"folder":        func(lock string) error { return os.Mkdir(lock, 0o700) },
		} {
			dir := t.TempDir()
			must(t, plant(filepath.Join(dir, "runtime-chat.owner.lock")))
			_, err := relay.Own(ctx, dir)
			if wire.CodeOf(err) != wire.CodeStoreUnavailable {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
	t.Run("RH2 a host excludes another and frees the folder", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		_, err := relay.Open(ctx, r.cfg)
		wantCode(t, err, wire.CodeOwnerBusy)
		r.reopen()
	})
	t.Run("RH2 an open that fails frees the lock", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.close()
		broken := r.cfg
		broken.Store = refusingStore{Store: r.store}
		_, err := relay.Open(ctx, broken)
		wantCode(t, err, wire.CodeStateUntrusted)
		r.open()
	})
	t.Run("RH2 a lock that the caller took stays the caller's", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.close()
		owner, err := relay.Own(ctx, r.dir)
		must(t, err)
		r.cfg.Owner = owner
		r.open()
		must(t, r.host.Close())
		_, err = relay.Own(ctx, r.dir)
		wantCode(t, err, wire.CodeOwnerBusy)
		must(t, owner.Release())
		r.cfg.Owner = nil
		r.open()
	})
}

// refusingStore is a store whose schema is not the known one.
type refusingStore struct{ relay.Store }

func (refusingStore) Verify(context.Context) error {
	return wire.NewError(wire.CodeStateUntrusted, "another schema")
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}

func TestRH3_UntrustedStateIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH3 a scope without rows is empty", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		wantCode(t, r.scope().AuthorizeRun(ctx, relaytest.Run), wire.CodeOwnerUnbound)
	})
	t.Run("RH3 another schema version, a missing table", func(t *testing.T) {
		t.Parallel()
		for _, damage := range []string{
			`UPDATE relay_schema SET version = 3`, `DELETE FROM relay_schema`, `DROP INDEX relay_turns_unsettled`,
		} {
			r := newRig(t)
			r.close()
			tamper(t, r, damage)
			_, err := relay.Open(ctx, r.cfg)
			wantCode(t, err, wire.CodeStateUntrusted)
			if !strings.Contains(err.Error(), "backup") || !strings.Contains(err.Error(), "host.db") {
				t.Fatalf("the error does not say what to do with which file: %v", err)
			}
			tamper(t, r, `DELETE FROM relay_schema`, `INSERT INTO relay_schema VALUES (1, 2)`,
				`CREATE INDEX IF NOT EXISTS relay_turns_unsettled ON relay_turns (scope_key) WHERE terminal_projected = 0`)
			r.open()
		}
	})
	for name, damage := range map[string]string{
		"an unsafe model":                 `UPDATE relay_bindings SET model = 'sk-abc'`,
		"an unsafe route":                 `UPDATE relay_bindings SET model_provider = 'workspace'`,
		"an invalid native id":            `UPDATE relay_bindings SET native_thread_id = 'thr-1!'`,
		"an invalid fingerprint":          `UPDATE relay_turns SET request_fingerprint = 'X' || substr(request_fingerprint, 2)`,
		"an upper-case fingerprint":       `UPDATE relay_bindings SET first_operation = upper(first_operation)`,
		"an invalid turn id":              `UPDATE relay_turns SET turn_id = 'local_turn_zzzzzzzzzzzzzzzzzzzzzzzz'`,
		"an owner that is no hash":        `UPDATE relay_scopes SET owner_fingerprint = 'z' || substr(owner_fingerprint, 2)`,
		"a scope under another key":       `UPDATE relay_scopes SET session_id = 'someone else'`,
		"bindings without an owner":       `DELETE FROM relay_scopes`,
		"a turn in a run not its own":     `UPDATE relay_turns SET run_id = 'run_other'`,
		"a turn without its binding":      `DELETE FROM relay_bindings`,
		"a journal entry that is no json": `INSERT INTO relay_journal SELECT scope_key, 'run_fixture', 99, 1, '{' FROM relay_scopes`,
	} {
		t.Run("RH3 "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			must(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)))
			r.close()
			tamper(t, r, damage)
			r.open()
			before := dump(t, r)
			_, err := r.host.Attach(ctx, relaytest.Attach(0), nil)
			wantCode(t, err, wire.CodeStateUntrusted)
			equal(t, "the stored state", dump(t, r), before)
		})
	}
	t.Run("RH3 shared ids cannot be stored", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		b, _ := r.binding(1)
		for name, change := range map[string]func(*relay.Binding){
			"binding id": func(c *relay.Binding) { c.VirtualThreadID, c.NativeThreadID = relaytest.ThreadID(9), "thr_other" },
			"thread id":  func(c *relay.Binding) { c.BindingID, c.NativeThreadID = "other", "thr_other" },
			"native id":  func(c *relay.Binding) { c.BindingID, c.VirtualThreadID = "other", relaytest.ThreadID(9) },
		} {
			c := b
			change(&c)
			err := r.store.InsertBinding(ctx, scopeKey(), c)
			if wire.CodeOf(err) != wire.CodeBindingMismatch {
				t.Fatalf("a shared %s: %v", name, err)
			}
		}
	})
	t.Run("RH3 a damaged file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "host.db")
		must(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600))
		db, err := sqldb.Open(ctx, sqldb.Options{Path: path})
		if err == nil {
			wantCode(t, relaysql.NewHost(db).Verify(ctx), wire.CodeStateUntrusted)
			must(t, db.Close())
		}
		raw, err := os.ReadFile(path)
		must(t, err)
		equal(t, "the file's size", len(raw), 15000)
	})
}

// tamper changes the database as a program does that knows no rules.
func tamper(t *testing.T, r *rig, statements ...string) {
	t.Helper()
	must(t, r.db.Close())
	raw := rawDB(t, filepath.Join(r.dir, "host.db"))
	for _, s := range statements {
		if _, err := raw.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	must(t, raw.Close())
	r.db = openDBAsIs(t, filepath.Join(r.dir, "host.db"))
	r.store.Store = relaysql.NewHost(r.db)
}

func TestRH4_WhatIsStoredIsLoadedAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	before, err := r.store.LoadScope(ctx, scopeKey())
	must(t, err)
	b, _ := r.binding(1)
	r.reopen()
	after, err := r.store.LoadScope(ctx, scopeKey())
	must(t, err)
	equal(t, "unsettled turns", len(after.Unsettled), 1)
	equal(t, "the reservation", after.Unsettled[0], before.Unsettled[0])
	equal(t, "the binding", after.Bindings[0], b)
	equal(t, "the scope", after.Scope, before.Scope)
	err = filepath.WalkDir(r.dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
	must(t, err)
	t.Run("RH4 an invalid state is never written", func(t *testing.T) {
		bad := relaytest.Prompt(2, 2)
		bad.Model = "sk-abc"
		before := dump(t, r)
		wantCode(t, r.authorized().Apply(ctx, bad), wire.CodeCommandInvalid)
		equal(t, "the stored state", dump(t, r), before)
	})
}

func TestRH8_TheScopeIsIsolated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.scope()
	base := filepath.Join(r.dir, s.Key())
	for _, dir := range []string{"", "chat-workspace", "prompt-context", "prompt-context/skills-empty"} {
		equal(t, dir, modeOf(t, filepath.Join(base, dir)), 0o700)
	}
	entries, err := os.ReadDir(filepath.Join(base, "chat-workspace"))
	must(t, err)
	equal(t, "entries of the workspace", len(entries), 0)

	t.Run("RH8 the catalog is that of the open", func(t *testing.T) {
		r.cfg.Providers[0].Models[0].ID = "changed-later"
		m, err := r.host.Catalog(context.Background(), relaytest.Challenge)
		must(t, err)
		equal(t, "second model", m.Catalog.Providers[0].Models[1].ID, "model-b")
	})
}
