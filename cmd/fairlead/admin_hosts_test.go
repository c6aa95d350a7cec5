package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/relay/wire"
)

// shell runs commands on one data folder.
type shell struct {
	t   *testing.T
	dir string
}

func (s shell) run(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	got, stdout, stderr := call(s.t, "a long enough password\n", append(args, "--data-dir", s.dir)...)
	if got != code {
		s.t.Errorf("%v: exit code %d, want %d\n%s", args, got, code, stderr)
	}
	return stdout, stderr
}

// join joins a host past the command line.
func (s shell) join(id, name string) {
	s.t.Helper()
	store, err := gatewaysql.Open(s.t.Context(), gatewaysql.Options{Path: filepath.Join(s.dir, "gateway.db")})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	service, err := enroll.New(s.t.Context(), enroll.Config{
		Store: store.Hosts(), Governs: (&accounts.Service{}).GovernsHosts, // it asks for no org of an operator
	})
	if err != nil {
		s.t.Fatal(err)
	}
	token, _, err := service.Invite(s.t.Context(), accounts.Operator(), enroll.NewInvite{})
	if err != nil {
		s.t.Fatal(err)
	}
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = service.Join(s.t.Context(), "", wire.HostJoin{
		Token: token, HostID: id, Name: name, Version: "1.0", PublicKey: base64.RawURLEncoding.EncodeToString(public),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAdminHost(t *testing.T) {
	t.Parallel()
	s := shell{t, t.TempDir()}
	out, errs := s.run(exitDone, "admin", "host", "invite", "--labels", "gpu,site=berlin", "--public-url", "https://chat.example.com/team")
	if !strings.HasPrefix(out, "fairlead host join https://chat.example.com/team fh_") || strings.Count(out, "\n") != 1 || strings.Contains(errs, "fh_") {
		t.Errorf("printed %q, and beside it %q", out, errs)
	}
	for _, args := range [][]string{{"--ttl", "16m"}, {"--ttl", "0s"}} {
		s.run(exitUsage, append([]string{"admin", "host", "invite"}, args...)...)
	}
	_, errs = s.run(exitFailed, "admin", "host", "invite", "--labels", "two words")
	if !strings.Contains(errs, "labels") {
		t.Error(errs)
	}
	s.join("target_1", "box")
	s.join("target_2", "box")
	_, errs = s.run(exitUsage, "admin", "host", "drain", "--host", "box")
	if !strings.Contains(errs, "by its id") {
		t.Errorf("two of one name: %s", errs)
	}
	s.run(exitDone, "admin", "host", "rename", "--host", "target_2", "--name", "target_1")
	s.run(exitDone, "admin", "host", "drain", "--host", "target_1") // the id goes before a name
	s.run(exitDone, "admin", "host", "label", "--host", "box", "--labels", "a,b=c")
	s.run(exitUsage, "admin", "host", "label", "--host", "box")
	out, _ = s.run(exitDone, "admin", "host", "list", "--json")
	var list []hostLine
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v in %s", err, out)
	}
	if l := list[0]; l.ID != "target_1" || l.State != string(gateway.HostDraining) || strings.Join(l.Labels, " ") != "a b=c" || l.SeenAt != nil {
		t.Errorf("listed as %+v", l)
	}
	if l := list[1]; l.Name != "target_1" || l.State != "active" || l.Labels == nil {
		t.Errorf("listed as %+v", l)
	}
	s.run(exitDone, "admin", "host", "resume", "--host", "box")
	s.run(exitDone, "admin", "host", "label", "--host", "box", "--none")
	s.run(exitDone, "admin", "host", "revoke", "--host", "box")
	for _, verb := range []string{"drain", "resume", "revoke"} {
		s.run(exitFailed, "admin", "host", verb, "--host", "box")
	}
	out, _ = s.run(exitDone, "admin", "host", "list")
	if !strings.Contains(out, "revoked") || !strings.Contains(out, "never") || strings.Contains(out, "built in") {
		t.Errorf("listed as\n%s", out)
	}
	own := hostDir(&config{DataDir: s.dir})
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := targetRef(own); err != nil {
		t.Fatal(err)
	}
	if out, _ = s.run(exitDone, "admin", "host", "list"); !strings.Contains(out, "built in") {
		t.Errorf("with a host of its own listed as\n%s", out)
	}
}

func TestControlTokensNameTheirTargets(t *testing.T) {
	t.Parallel()
	s := shell{t, t.TempDir()}
	s.run(exitDone, "admin", "user", "create", "--email", "plane@example.com", "--role", "member", "--password-stdin")
	token := func(code int, more ...string) string {
		t.Helper()
		out, _ := s.run(code, append([]string{"admin", "token", "create", "--email", "plane@example.com", "--ttl", "1h"}, more...)...)
		return out
	}
	s.join("target_1", "one")
	s.join("target_2", "two")
	s.join("target_3", "three")
	if out := token(exitDone, "--scopes", "relay:control", "--targets", "target_1,target_2"); !strings.HasPrefix(out, "fl_") {
		t.Errorf("printed %q", out)
	}
	s.run(exitDone, "admin", "host", "revoke", "--host", "target_3")
	own := hostDir(&config{DataDir: s.dir})
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	embedded, err := targetRef(own)
	if err != nil {
		t.Fatal(err)
	}
	token(exitDone, "--scopes", "relay:control", "--targets", embedded)
	for _, unknown := range []string{"target_3", "target_4", "one"} {
		_, errs := s.run(exitFailed, "admin", "token", "create", "--email", "plane@example.com", "--ttl", "1h",
			"--scopes", "relay:control", "--targets", "target_1,"+unknown)
		for _, said := range []string{unknown, "bad_request", "targets[1]: known"} {
			if !strings.Contains(errs, said) {
				t.Errorf("%s: %q does not say %s", unknown, errs, said)
			}
		}
	}
	token(exitFailed, "--scopes", "relay:control")
	token(exitFailed, "--scopes", "chat", "--targets", "target_1")
	token(exitFailed, "--scopes", "relay:control", "--targets", "no target")
	token(exitUsage, "--scopes", "relay:everything")
}
