package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

func (m *machine) read(name string) string {
	m.t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.data, "host", name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(raw)
}

func (m *machine) has(name string) bool {
	_, err := os.Stat(filepath.Join(m.data, "host", name))
	return err == nil
}

// enrolled gives what the folder says of its gateway.
func (m *machine) enrolled() *enrolment {
	m.t.Helper()
	e, err := readEnrolment(filepath.Join(m.data, "host"))
	if err != nil {
		m.t.Fatal(err)
	}
	return e
}

func TestRH44_AHostJoins(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	code, out, errs := m.call("fh_token\n", "host", "join", "--name", "GPU box", d.base()+"/", "-")
	if code != exitDone {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	for _, want := range []string{`as "GPU box"`, m.data, "fairlead host run", "fairlead host install"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	e := m.enrolled()
	if e.URL != d.base() || e.GatewayID != "gateway_1" || e.HostID != strings.TrimSpace(m.read("target")) {
		t.Errorf("enrolment is %+v", e)
	}
	for _, file := range []string{hostKeyName, enrolmentName} {
		info, err := os.Stat(filepath.Join(m.data, "host", file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if m.has(newKeyName) {
		t.Error("the key has a second name")
	}
	if strings.Contains(out+errs+d.everything(), strings.TrimSpace(m.read(hostKeyName))) {
		t.Error("the private key left the folder")
	}
}

// TestRH46_NothingOfTheMachineIsSent looks at every byte of a join and a link.
func TestRH46_NothingOfTheMachineIsSent(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.settings(`host:
  name: box
  providers:
    - {id: demo, key: demo, api: demo}
    - {id: sim, key: sim, api: openai-chat, base_url: "http://upstream.internal:9/v1", api_key_env: SECRET_IN_THE_ENVIRONMENT, models: [{id: m, upstream: own-name}]}
`)
	m.joined(d)
	m.serve()
	l := got(t, "the link", d.links)
	if err := l.RequestCatalog(t.Context(), strings.Repeat("c", 40)); err != nil {
		t.Fatal(err)
	}
	catalog := got(t, "the catalog", l.catalogs)
	if len(catalog.Routes) != 2 {
		t.Fatalf("catalog is %+v", catalog)
	}
	hello := l.Hello()
	sent := d.everything() + hello.HostID + hello.Name + hello.Version + strings.Join(hello.Capabilities, " ") + mustJSON(t, catalog)
	for what, secret := range map[string]string{
		"path": m.data, "settings": m.file, "environment": "hunter2", "variable": "SECRET_IN_THE_ENVIRONMENT",
		"key": strings.TrimSpace(m.read(hostKeyName)), "address of a provider": "upstream.internal", "name at the provider": "own-name",
	} {
		if strings.Contains(sent, secret) {
			t.Errorf("the %s was sent:\n%s", what, sent)
		}
	}
}

func TestRH44_ALostAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	d.answer(wire.PathHostJoin, func(w http.ResponseWriter, r *http.Request) {
		d.join(&lost{w}, r)
		panic(http.ErrAbortHandler)
	})
	code, _, errs := m.call("", "host", "join", d.base(), "fh_token")
	if code != exitFailed || !strings.Contains(errs, "run the same command again") {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if m.enrolled() != nil {
		t.Fatal("the folder is enrolled without an answer")
	}
	d.answer(wire.PathHostJoin, nil)
	m.joined(d)
	m.joined(d) // and again, with the key in force
}

// lost is an answer that does not arrive.
type lost struct{ http.ResponseWriter }

func (*lost) Write(p []byte) (int, error) { return len(p), nil }
func (*lost) WriteHeader(int)             {}

func TestRH45_AnEnrolledFolderChangesItsGatewayOnlyWhenTold(t *testing.T) {
	t.Parallel()
	first, second, m := newDoorway(t), newDoorway(t), newMachine(t)
	second.gatewayID = "gateway_2"
	m.joined(first)
	before, key := m.read(enrolmentName), m.read(hostKeyName)
	unchanged := func(what string) {
		t.Helper()
		if m.read(enrolmentName) != before || m.read(hostKeyName) != key {
			t.Errorf("%s: the folder was changed", what)
		}
	}
	code, _, errs := m.call("", "host", "join", second.base(), "fh_token")
	if code != exitFailed || !strings.Contains(errs, first.base()) || !strings.Contains(errs, "--replace") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	unchanged("another address")
	if second.everything() != "" {
		t.Error("the other gateway was asked")
	}

	// Another gateway under the same address, and one that names another host.
	first.gatewayID = "gateway_x"
	code, _, errs = m.call("", "host", "join", first.base(), "fh_token")
	if code != exitFailed || !strings.Contains(errs, "another gateway") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	unchanged("another gateway")
	first.answer(wire.PathHostJoin, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 200, wire.HostJoined{HostID: "target_else", Name: "x", GatewayID: "gateway_1"})
	})
	for _, flag := range []string{"--name=x", "--replace"} {
		code, _, errs = m.call("", "host", "join", flag, first.base(), "fh_token")
		if code != exitFailed || !strings.Contains(errs, "another host") {
			t.Errorf("%s: exit code %d\n%s", flag, code, errs)
		}
		unchanged("another host, " + flag)
	}

	if code, _, errs := m.call("", "host", "join", "--replace", second.base(), "fh_token"); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	e := m.enrolled()
	if e.GatewayID != "gateway_2" || e.URL != second.base() || m.read(hostKeyName) == key || m.has(newKeyName) {
		t.Errorf("enrolment is %+v", e)
	}
	if !strings.Contains(before, e.HostID) {
		t.Error("the target changed (RH59)")
	}
}

func TestRH46_AnAnswerWithAnyOtherFieldFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"missing":     {200, `{"hostId":"HOST","name":"x"}`, "gatewayId (required)"},
		"extra":       {200, `{"hostId":"HOST","name":"x","gatewayId":"g","more":1}`, "more (unknown)"},
		"wrong":       {200, `{"hostId":"HOST","name":"x","gatewayId":7}`, "gatewayId (type)"},
		"no JSON":     {200, `<html>hello</html>`, "not the JSON"},
		"empty":       {200, ``, "not the JSON"},
		"too long":    {200, `{"hostId":"` + strings.Repeat("x", maxGatewayAnswer) + `"}`, "longer than 1 MiB"},
		"redirect":    {302, ``, "redirects (302)"},
		"page of 404": {404, `<html>`, "answered 404: it is not a Fairlead gateway"},
		"refusal":     {401, `{"error":{"code":"invite_invalid","message":"Ask\u0007 an admin."}}`, "Ask an admin. (invite_invalid)"},
		"revoked":     {403, `{"error":{"code":"host_revoked","message":"Revoked."}}`, "--replace"},
	} {
		t.Run("RH46 "+name, func(t *testing.T) {
			t.Parallel()
			d, m := newDoorway(t), newMachine(t)
			d.answer(wire.PathHostJoin, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(strings.ReplaceAll(c.body, "HOST", strings.TrimSpace(m.read("target")))))
			})
			code, _, errs := m.call("", "host", "join", d.base(), "fh_token")
			if code != exitFailed || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d, want %q in\n%s", code, c.want, errs)
			}
			if m.enrolled() != nil {
				t.Error("the folder is enrolled")
			}
		})
	}
}

func TestHostJoinArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		text        string
	}{
		{"no token", "", []string{"https://a.example"}, exitUsage, "<token>"},
		{"empty token on standard input", "\n", []string{"https://a.example", "-"}, exitUsage, "alone, one word"},
		{"a command on standard input", "fairlead host join https://a.example fh_x\n", []string{"https://a.example", "-"}, exitUsage, "alone, one word"},
		{"http to another machine", "", []string{"http://a.example", "t"}, exitUsage, "everybody on the way can read"},
		{"no address", "", []string{"a.example", "t"}, exitUsage, "such as https://chat.example.com"},
		{"another scheme", "", []string{"ftp://a.example", "t"}, exitUsage, "must begin with https://"},
		{"a token in the address", "", []string{"https://a.example/?token=x", "t"}, exitUsage, "the token stands beside it"},
		{"a password in the address", "", []string{"https://u:p@a.example", "t"}, exitUsage, "nothing but host, port and path"},
		{"nobody there", "", []string{"--insecure", "http://127.0.0.1:1", "t"}, exitFailed, "cannot be reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			code, _, errs := m.call(c.stdin, append([]string{"host", "join"}, c.args...)...)
			if code != c.code || !strings.Contains(errs, c.text) {
				t.Errorf("exit code %d, want %d and %q in\n%s", code, c.code, c.text, errs)
			}
		})
	}
}

func TestRH2_ARunningHostIsNotJoinedElsewhere(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	m.serve()
	got(t, "the link", d.links)
	code, _, errs := m.call("", "host", "join", "--replace", d.base(), "fh_token")
	if code != exitFailed || !strings.Contains(errs, string(wire.CodeOwnerBusy)) {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

func TestRH45_AReplacementMayBeCutShortAnywhere(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	dir := filepath.Join(m.data, "host")
	// The new key is made, and the answer lost.
	if _, err := unusedKey(dir); err != nil {
		t.Fatal(err)
	}
	target := m.enrolled().HostID
	id, err := loadIdentity(dir, target)
	if err != nil || publicText(id.key) != id.PublicKey {
		t.Fatalf("identity is %+v, %v", id, err)
	}
	// The answer is stored, and the key not renamed.
	key, err := unusedKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := m.enrolled()
	e.PublicKey = publicText(key)
	if err := e.write(dir); err != nil {
		t.Fatal(err)
	}
	if id, err = loadIdentity(dir, target); err != nil || !id.key.Equal(key) || m.has(newKeyName) {
		t.Fatalf("identity is %+v, %v", id, err)
	}
}

// TestRH45_ARevokedKeyIsNotOfferedForEver: the answer to a join was lost, and the host
// revoked before it asked again. The key that waits is worth nothing then.
func TestRH45_ARevokedKeyIsNotOfferedForEver(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	var offered []string
	d.answer(wire.PathHostJoin, func(w http.ResponseWriter, r *http.Request) {
		var req wire.HostJoin
		raw, _ := io.ReadAll(r.Body)
		if err := wire.DecodeStrict(raw, &req); err != nil {
			t.Error(err)
		}
		if offered = append(offered, req.PublicKey); req.PublicKey == offered[0] {
			refuseJSON(w, 403, wire.NewError(wire.CodeHostRevoked, "The key of this host was revoked."))
			return
		}
		writeJSON(w, 200, wire.HostJoined{HostID: req.HostID, Name: req.Name, GatewayID: d.gatewayID})
	})
	code, _, errs := m.call("", "host", "join", d.base(), "fh_token")
	if code != exitFailed || !strings.Contains(errs, "--replace") {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if code, _, errs = m.call("", "host", "join", "--replace", d.base(), "fh_token"); code != exitDone {
		t.Fatalf("with another key: exit code %d\n%s", code, errs)
	}
	if m.enrolled().PublicKey == offered[0] || m.has(newKeyName) {
		t.Error("the revoked key is in force")
	}
}
