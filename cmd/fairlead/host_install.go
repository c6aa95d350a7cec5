package main

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/google/renameio/v2"
)

const unitName = "fairlead-host.service"

type hostInstallCmd struct {
	User   bool   `xor:"where" help:"For this user: ~/.config/systemd/user."`
	System bool   `xor:"where" help:"For the machine: /etc/systemd/system (default). The unit has a user of its own."`
	Print  bool   `help:"Print the unit in place of writing it."`
	Key    string `name:"environment-file" placeholder:"FILE" type:"path" help:"File with the variables that hold provider keys, NAME=value a line."`
}

// Help gives examples.
func (hostInstallCmd) Help() string {
	return `Examples:

  fairlead host install --print
  sudo fairlead host install -c /etc/fairlead.yaml --environment-file /etc/fairlead.env
  fairlead host install --user

The system's unit keeps its data in /var/lib/fairlead unless data_dir says otherwise,
and runs as a user that only it has. Join the gateway from the unit's own folder; the
command that does so is printed.`
}

// Run writes the unit.
func (i hostInstallCmd) Run(_ context.Context, c *cli, std stdio) error {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	u, err := newUnit(cfg, c.Config, i)
	if err != nil {
		return err
	}
	text, err := u.render()
	if err != nil {
		return err
	}
	if i.Print {
		_, err = fmt.Fprint(std.Out, text)
		return err
	}
	if err := u.seen(); err != nil {
		return err
	}
	return u.install(std, text)
}

// unit is what a systemd unit is made of.
type unit struct {
	User        bool
	Program     string
	Config      string
	DataDir     string
	Environment string // file
	State       string // of StateDirectory; "" where the folder is elsewhere
	StopSeconds int
	NoRestart   string
	path        string
}

// stateRoot is where systemd keeps the state of the system's units.
const stateRoot = "/var/lib"

func newUnit(cfg *config, configFile string, cmd hostInstallCmd) (*unit, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program's file: %w", err)
	}
	u := &unit{
		User: cmd.User, Program: program, Environment: cmd.Key,
		StopSeconds: int(math.Ceil(cfg.Host.Drain.Seconds())) + stopGraceSeconds,
		NoRestart:   fmt.Sprintf("%d %d %d %d", exitUsage, exitSettings, exitRefused, exitSuperseded),
	}
	if configFile == "" {
		configFile, _ = variable(cfg.environ, envConfigFile)
	}
	if _, err := os.Stat(defaultConfigFile); configFile == "" && err == nil {
		configFile = defaultConfigFile // these settings were read, and the unit runs elsewhere
	}
	if configFile != "" {
		if u.Config, err = filepath.Abs(configFile); err != nil {
			return nil, fmt.Errorf("settings file: %w", err)
		}
	}
	if err := u.place(cfg); err != nil {
		return nil, err
	}
	return u, u.check()
}

// stopGraceSeconds is what the program takes to end once it has drained.
const stopGraceSeconds = 15

// place says where the unit and its data are.
func (u *unit) place(cfg *config) error {
	_, set := cfg.origins["data_dir"]
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	if !u.User {
		u.path = filepath.Join("/etc/systemd/system", unitName)
		if !set {
			dir = filepath.Join(stateRoot, "fairlead")
		}
		if name, ok := strings.CutPrefix(dir, stateRoot+"/"); ok && !strings.Contains(name, "/") {
			u.State = name
		}
		u.DataDir = dir
		return nil
	}
	home, err := os.UserConfigDir()
	if err != nil {
		return fmt.Errorf("folder of this user's units: %w", err)
	}
	u.path, u.DataDir = filepath.Join(home, "systemd", "user", unitName), dir
	return nil
}

// check refuses what a unit file cannot hold.
func (u *unit) check() error {
	for _, path := range []string{u.Program, u.Config, u.DataDir, u.Environment} {
		if strings.ContainsAny(path, "\n\r\x00") {
			return &usageError{"a path with a line break cannot stand in a unit"}
		}
	}
	if !u.User && u.State == "" {
		return &usageError{"the system's unit keeps its data in a folder directly under /var/lib, which its user alone may enter: " +
			"set data_dir to one, or use --user"}
	}
	return nil
}

// seen refuses what the unit's user cannot see: such a unit would be started for ever.
func (u *unit) seen() error {
	if u.User {
		return nil
	}
	for _, path := range []string{u.Program, u.Config} {
		for _, hidden := range []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"} {
			if strings.HasPrefix(path, hidden) {
				return &usageError{fmt.Sprintf("the system's unit sees nothing of %s: put %s elsewhere, such as /usr/local/bin or /etc, or use --user", hidden, path)}
			}
		}
	}
	return nil
}

// quoted is a word of a command line of systemd: percent signs and dollars stand for
// themselves.
func quoted(word string) string {
	return strconv.Quote(strings.NewReplacer("%", "%%", "$", "$$").Replace(word))
}

// escaped is a path in a setting that is no command line.
func escaped(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// unitText is hardened so that a host can reach the network and its own folder, and
// nothing else of the machine. MemoryDenyWriteExecute and the system call filter are
// what a Go program without cgo needs no more of.
const unitText = `# Written by fairlead host install.
[Unit]
Description=Fairlead relay host
Documentation=https://github.com/fairlead/fairlead
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={{quoted .Program}} host run --data-dir {{quoted .DataDir}}{{if .Config}} --config {{quoted .Config}}{{end}}
ExecReload=/bin/kill -HUP $MAINPID
{{- if .Environment}}
EnvironmentFile={{escaped .Environment}}
{{- end}}
Restart=on-failure
RestartSec=5s
# Wrong arguments, wrong settings, refused by the gateway, superseded: starting again
# would not help.
RestartPreventExitStatus={{.NoRestart}}
TimeoutStopSec={{.StopSeconds}}
WatchdogSec=60
UMask=0077
{{- if .User}}
NoNewPrivileges=yes
{{- else}}

DynamicUser=yes
StateDirectory={{.State}}
StateDirectoryMode=0700
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectProc=invisible
ProcSubset=pid
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
CapabilityBoundingSet=
AmbientCapabilities=
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
{{- end}}

[Install]
WantedBy={{if .User}}default.target{{else}}multi-user.target{{end}}
`

func (u *unit) render() (string, error) {
	t, err := template.New(unitName).Funcs(template.FuncMap{"quoted": quoted, "escaped": escaped}).Parse(unitText)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, u); err != nil {
		return "", err
	}
	return b.String(), nil
}

// install writes the unit and says what comes next. It starts nothing.
func (u *unit) install(std stdio, text string) error {
	if err := os.MkdirAll(filepath.Dir(u.path), 0o755); err != nil { //nolint:gosec // as systemd's own
		return unitFault(u, err)
	}
	if err := renameio.WriteFile(u.path, []byte(text), 0o644); err != nil {
		return unitFault(u, err)
	}
	flag, run := "", "sudo "
	if u.User {
		flag, run = "--user ", ""
	}
	join := fmt.Sprintf("fairlead host join --data-dir %s URL -", u.DataDir)
	if !u.User {
		// Only the unit's own user may enter its folder.
		join = fmt.Sprintf("sudo systemd-run --pty -p DynamicUser=yes -p User=fairlead-host -p StateDirectory=%s %s host join --data-dir %s URL -",
			u.State, u.Program, u.DataDir)
	}
	_, err := fmt.Fprintf(std.Out, `Wrote %s.

Next, unless the host has joined its gateway already (paste the token, then Enter and Ctrl-D):

  %s

Then:

  %ssystemctl %sdaemon-reload
  %ssystemctl %senable --now fairlead-host
`, u.path, join, run, flag, run, flag)
	return err
}

func unitFault(u *unit, err error) error {
	if os.IsPermission(err) && !u.User {
		return fmt.Errorf("only root may write %s (%w): use sudo, --user, or --print", u.path, fs.ErrPermission)
	}
	return fmt.Errorf("unit: %w", err)
}
