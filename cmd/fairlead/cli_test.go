package main

import (
	"bytes"
	"strings"
	"testing"
)

// call runs the program as main does, with an environment of its own.
func call(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, stdio{In: strings.NewReader(stdin), Out: &out, Err: &errs, Environ: []string{"FAIRLEAD_DATA_DIR=" + t.TempDir()}})
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
		text string // in standard error
	}{
		{"done", []string{"version"}, exitDone, ""},
		{"help", []string{"--help"}, exitDone, ""},
		{"help of a command", []string{"admin", "token", "create", "--help"}, exitDone, ""},
		{"nothing", nil, exitUsage, "Try: fairlead --help"},
		{"unknown command", []string{"fly"}, exitUsage, "Try: fairlead --help"},
		{"unknown flag", []string{"admin", "user", "create", "--fly"}, exitUsage, "Try: fairlead admin user create --help"},
		{"missing flag", []string{"admin", "user", "create", "--email", "a@example.com", "--role", "admin"}, exitUsage, "--password-stdin"},
		{"unknown role", []string{"admin", "user", "create", "--email", "a", "--role", "king", "--password-stdin"}, exitUsage, "--role"},
		{"unknown scope", []string{"admin", "token", "create", "--email", "a", "--scopes", "chat,root", "--ttl", "1h"}, exitUsage, "--scopes"},
		{"no time to live", []string{"admin", "token", "create", "--email", "a", "--scopes", "chat", "--ttl", "0s"}, exitUsage, "--ttl"},
		{"no duration", []string{"admin", "token", "create", "--email", "a", "--scopes", "chat", "--ttl", "soon"}, exitUsage, "--ttl"},
		{"no file", []string{"host", "import-state"}, exitUsage, "Try: fairlead host import-state --help"},
		{"--set without a value", []string{"config", "--set", "x"}, exitUsage, "NAME=VALUE"},
		{"wrong settings", []string{"config", "--listen", "x"}, exitSettings, "--listen: listen: must be host:port"},
		{"wrong settings, flag before", []string{"--listen", "x", "config"}, exitSettings, "--listen: listen: must be host:port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := call(t, "", c.args...)
			if code != c.code || !strings.Contains(stderr, c.text) || (c.text == "") != (stderr == "") {
				t.Errorf("exit code %d, want %d; standard error:\n%s", code, c.code, stderr)
			}
		})
	}
}

func TestPasswordFromStandardInput(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"secret\n": "secret", "secret": "secret", "secret\r\n": "secret", "secret\n\n": "secret\n", " two words \n": " two words ", "": "",
	} {
		if got, err := readPassword(strings.NewReader(in)); err != nil || got != want {
			t.Errorf("%q gives %q, %v", in, got, err)
		}
	}
	if _, err := readPassword(strings.NewReader(strings.Repeat("x", maxPasswordInput+1))); err == nil {
		t.Error("a password of any length is read")
	}
}
