package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// printed gives the unit of a machine.
func printed(t *testing.T, m *machine, args ...string) string {
	t.Helper()
	code, out, errs := m.call("", append([]string{"host", "install", "--print"}, args...)...)
	if code != exitDone {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	return out
}

func TestHostInstall_TheUnit(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.settings("host: {drain: 100ms}\n")
	system := printed(t, m, "--data-dir", "/var/lib/fairlead", "-c", m.file, "--environment-file", "/etc/fair 100%.env")
	for _, want := range []string{
		"Type=notify", `host run --data-dir "/var/lib/fairlead" --config "` + m.file + `"`, "EnvironmentFile=/etc/fair 100%%.env",
		"Restart=on-failure", "RestartPreventExitStatus=2 3 4 5", "TimeoutStopSec=16", "WatchdogSec=60",
		"DynamicUser=yes", "StateDirectory=fairlead", "ProtectSystem=strict", "NoNewPrivileges=yes", "PrivateTmp=yes",
		"SystemCallFilter=@system-service", "WantedBy=multi-user.target", "ExecReload=/bin/kill -HUP $MAINPID",
	} {
		if !strings.Contains(system, want+"\n") {
			t.Errorf("no line %q in\n%s", want, system)
		}
	}
	user := printed(t, m, "--user")
	if strings.Contains(user, "DynamicUser") || !strings.Contains(user, `--data-dir "`+m.data+`"`) || !strings.Contains(user, "WantedBy=default.target") {
		t.Errorf("unit is\n%s", user)
	}
}

// TestHostInstall_SystemdTakesTheUnit has systemd itself read it.
func TestHostInstall_SystemdTakesTheUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed here")
	}
	m := newMachine(t)
	for name, args := range map[string][]string{
		"system": {"--data-dir", "/var/lib/fairlead"},
		"odd":    {"--data-dir", "/var/lib/fair $HOME 100% \"x\""},
		"user":   {"--user"},
	} {
		file := filepath.Join(t.TempDir(), unitName)
		if err := os.WriteFile(file, []byte(printed(t, m, args...)), 0o600); err != nil {
			t.Fatal(err)
		}
		verify := []string{"verify", "--man=no", file}
		if name == "user" {
			verify = append([]string{"--user"}, verify...)
		}
		cmd := exec.CommandContext(t.Context(), analyze, verify...)
		cmd.Env = append(cmd.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), unitName) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestHostInstall_Writes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	u := &unit{User: true, Program: "/usr/bin/fairlead", DataDir: m.data, path: filepath.Join(m.data, "units", unitName)}
	var out strings.Builder
	if err := u.install(stdio{Out: &out}, "[Unit]\n"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(u.path)
	if err != nil || string(raw) != "[Unit]\n" || !strings.Contains(out.String(), "systemctl --user enable --now fairlead-host") {
		t.Errorf("%q, %v\n%s", raw, err, out.String())
	}
	if code, _, errs := m.call("", "host", "install", "--print"); code != exitUsage || !strings.Contains(errs, "directly under /var/lib") {
		t.Errorf("a system's unit outside /var/lib: exit code %d\n%s", code, errs)
	}
	if code, _, errs := m.call("", "host", "install", "--user", "--system"); code != exitUsage {
		t.Errorf("both places: exit code %d\n%s", code, errs)
	}
}

// TestHostInstall_TheUnitHasTheSettingsThatWereRead: a unit runs in another folder, so
// that the default settings file of this one must stand in it.
func TestHostInstall_TheUnitHasTheSettingsThatWereRead(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, defaultConfigFile)
	if err := os.WriteFile(file, []byte("data_dir: /var/lib/box\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	std := stdio{Out: &out, Err: &errs}
	if code := run(t.Context(), []string{"host", "install", "--print"}, std); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
	if want := `--data-dir "/var/lib/box" --config "` + file + `"`; !strings.Contains(out.String(), want) {
		t.Errorf("no %s in\n%s", want, out.String())
	}
}

// TestHostInstall_WhatTheUnitCannotSee: its folders of people and of passing files are
// empty, so that a program there would be started again for ever.
func TestHostInstall_WhatTheUnitCannotSee(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		u  unit
		ok bool
	}{
		{unit{Program: "/usr/bin/fairlead", Config: "/etc/fairlead.yaml"}, true},
		{unit{Program: "/usr/bin/fairlead", Config: "/root/fairlead.yaml"}, false},
		{unit{Program: "/home/ada/fairlead"}, false},
		{unit{Program: "/tmp/fairlead"}, false},
		{unit{User: true, Program: "/home/ada/fairlead"}, true},
	} {
		if err := tt.u.seen(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.u, err)
		}
	}
}
