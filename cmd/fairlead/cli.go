package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Exit codes; they are part of the interface for scripts.
const (
	exitDone     = 0
	exitFailed   = 1 // the command could not do its work
	exitUsage    = 2 // wrong arguments
	exitSettings = 3 // wrong settings

	// Of `host run`: starting it again would not help.
	exitRefused    = 4 // its gateway refused or revoked it
	exitSuperseded = 5 // another process is linked as the same host
)

// stdio is what a command has of its surroundings.
type stdio struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // NAME=value
}

// cli is the grammar of the command line. Flags of the root stand before or
// after the command.
type cli struct {
	Config   string   `short:"c" placeholder:"FILE" help:"Settings file. Default: fairlead.yaml if it is there."`
	DataDir  string   `placeholder:"DIR" help:"Folder of everything that is kept (data_dir)."`
	DBURL    string   `name:"database-url" placeholder:"URL" help:"PostgreSQL database instead of SQLite in the folder (database_url)."`
	Listen   string   `placeholder:"ADDR" help:"Address to listen on (listen)."`
	URL      string   `name:"public-url" placeholder:"URL" help:"Address under which people reach the server (public_url)."`
	LogLevel string   `placeholder:"LEVEL" help:"debug, info, warn or error (log.level)."`
	LogForm  string   `name:"log-format" placeholder:"FORMAT" help:"text or json (log.format)."`
	Set      []string `sep:"none" placeholder:"NAME=VALUE" help:"Any setting by its name, such as --set host.max_inflight=4."`

	Serve serveCmd  `cmd:"" help:"Serve the gateway and its embedded relay host."`
	Admin adminCmds `cmd:"" help:"Manage accounts and orgs, before the first serve or beside a running one."`
	Host  struct {
		Join        hostJoinCmd    `cmd:"" help:"Make this machine a relay host of a gateway elsewhere."`
		Run         hostRunCmd     `cmd:"" help:"Serve that gateway from here."`
		Install     hostInstallCmd `cmd:"" help:"Have systemd run the host."`
		ImportState importStateCmd `cmd:"" help:"Take over the bindings file of a reference host."`
	} `cmd:"" help:"Run a relay host on this machine, and manage its state."`
	Chat    chatCmd    `cmd:"" help:"Chat in the terminal, or send one message from a script."`
	Show    configCmd  `cmd:"" name:"config" help:"Print the settings in force and where each comes from."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const description = `A WebSocket gateway with a browser chat for language models.

Settings come from a YAML file, from FAIRLEAD_… variables (FAIRLEAD_HOST__NAME is host.name) and from flags; later ones win.

Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 wrong settings; of host run also 4 refused by its gateway, 5 superseded.`

// run is the program: main and the tests call it.
func run(ctx context.Context, args []string, std stdio) int {
	var c cli
	helped := false
	parser, err := kong.New(&c, kong.Name("fairlead"), kong.Description(description),
		kong.Writers(std.Out, std.Err), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: false}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(std, &c))
	if err != nil {
		return fail(std, err)
	}
	parsed, err := parser.Parse(args)
	if helped {
		return exitDone
	}
	if err != nil {
		_, _ = fmt.Fprintf(std.Err, "fairlead: %v\nTry: fairlead %s--help\n", err, commandOf(err))
		return exitUsage
	}
	if err := parsed.Run(); err != nil {
		return fail(std, err)
	}
	return exitDone
}

// commandOf names the command that a wrong call has got as far as.
func commandOf(err error) string {
	var p *kong.ParseError
	if !errors.As(err, &p) || p.Context == nil {
		return ""
	}
	var names strings.Builder
	for _, step := range p.Context.Path {
		if step.Command != nil {
			names.WriteString(step.Command.Name + " ")
		}
	}
	return names.String()
}

func fail(std stdio, err error) int {
	var chat *chatEnd
	if errors.As(err, &chat) && chat.err == nil {
		return chat.code
	}
	_, _ = fmt.Fprintf(std.Err, "fairlead: %v\n", err)
	var wrong *configError
	var usage *usageError
	var stopped *stoppedError
	switch {
	case chat != nil:
		return chat.code
	case errors.As(err, &stopped):
		return stopped.code
	case errors.As(err, &wrong):
		return exitSettings
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// usageError is a wrong argument that the grammar alone cannot tell.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

// load reads the settings with what the flags say.
func (c *cli) load(std stdio) (*config, error) {
	flags, err := c.flags()
	if err != nil {
		return nil, err
	}
	return loadConfig(c.Config, std.Environ, flags)
}

// flags gives the settings that flags name, in the order in which they apply.
func (c *cli) flags() ([]flagSetting, error) {
	var out []flagSetting
	for _, f := range []flagSetting{
		{"--data-dir", "data_dir", c.DataDir},
		{"--database-url", "database_url", c.DBURL},
		{"--listen", "listen", c.Listen},
		{"--public-url", "public_url", c.URL},
		{"--log-level", "log.level", c.LogLevel},
		{"--log-format", "log.format", c.LogForm},
	} {
		if f.value != "" {
			out = append(out, f)
		}
	}
	for _, s := range c.Set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, &usageError{"--set takes NAME=VALUE"}
		}
		out = append(out, flagSetting{"--set " + name, name, value})
	}
	return out, nil
}

type serveCmd struct {
	StaticDir string `placeholder:"DIR" type:"path" help:"Serve scripts and styles from this folder, to work on them."`
}

// Help gives examples.
func (serveCmd) Help() string {
	return `Examples:

  fairlead serve
  fairlead serve --listen 0.0.0.0:8080 --public-url https://chat.example.com
  FAIRLEAD_DATA_DIR=/var/lib/fairlead fairlead serve --config /etc/fairlead.yaml

Without accounts a one-time link is printed with which the first admin is made.`
}

// Run serves until the context ends.
func (s serveCmd) Run(ctx context.Context, c *cli, std stdio) error {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	return readable(runServe(ctx, cfg, std, s))
}

type userCreateCmd struct {
	Email         string `required:"" placeholder:"EMAIL" help:"Address with which the person logs in."`
	Role          string `required:"" enum:"admin,member" placeholder:"ROLE" help:"admin or member."`
	Org           string `placeholder:"ORG" help:"Organisation to join. Default: the first."`
	PasswordStdin bool   `required:"" help:"Read the password from standard input; one newline at its end is cut."`

	Password string `kong:"-"`
}

// Help gives examples.
func (userCreateCmd) Help() string {
	return `Examples:

  fairlead admin user create --email ada@example.com --role admin --password-stdin < password.txt
  printf %s "$PASSWORD" | fairlead admin user create --email bob@example.com --role member --password-stdin`
}

// Run reads the password and makes the account.
func (u userCreateCmd) Run(ctx context.Context, c *cli, std stdio) (err error) {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	if u.Password, err = readPassword(std.In); err != nil {
		return err
	}
	return runUserCreate(ctx, cfg, std, u)
}

const maxPasswordInput = 4096

func readPassword(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxPasswordInput+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the password from standard input: %w", err)
	case len(raw) > maxPasswordInput:
		return "", &usageError{"the password on standard input is too long"}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"), nil
}

type tokenCreateCmd struct {
	Email  string        `required:"" placeholder:"EMAIL" help:"Account that the token acts for."`
	Scopes []string      `required:"" enum:"chat,admin,relay:control" placeholder:"SCOPE" help:"What it may do: chat, admin, relay:control, or several with commas between."`
	Target []string      `name:"targets" placeholder:"HOST" help:"Ids of the relay hosts that a token with relay:control may drive, with commas between."`
	TTL    time.Duration `name:"ttl" required:"" placeholder:"DURATION" help:"How long it is valid, such as 24h."`
	JSON   bool          `name:"json" help:"Print JSON: the token, its account and its hosts, as a control plane needs them."`
}

// Help gives examples.
func (tokenCreateCmd) Help() string {
	return `Examples:

  fairlead admin token create --email ops@example.com --scopes chat --ttl 24h
  TOKEN=$(fairlead admin token create --email ops@example.com --scopes chat,admin --ttl 1h)
  fairlead admin token create --email plane@example.com --scopes relay:control --targets target_1f2e --ttl 24h

The token alone is printed on standard output, or with --json an object that holds it.
It is shown this once.`
}

// Run makes the token.
func (t tokenCreateCmd) Run(ctx context.Context, c *cli, std stdio) error {
	if t.TTL <= 0 {
		return &usageError{"--ttl must be more than nothing"}
	}
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	return runTokenCreate(ctx, cfg, std, t)
}

type importStateCmd struct {
	File    string `arg:"" placeholder:"FILE" type:"path" help:"A runtime-chat-bindings.json."`
	Session string `required:"" placeholder:"SESSION" help:"Session that the file belongs to."`
	Target  string `placeholder:"TARGET" help:"Target that the file belongs to. Default: this host's own."`
	Account string `placeholder:"ACCOUNT" help:"Account that must own it; without it any owner is taken."`
}

// Help gives examples.
func (importStateCmd) Help() string {
	return `Example:

  fairlead host import-state --session chat-1 --target target_1f ~/old-host/runtime-chat-bindings.json

A file that cannot be trusted is refused as a whole.`
}

// Run imports the file.
func (i importStateCmd) Run(ctx context.Context, c *cli, std stdio) error {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	return runImportState(ctx, cfg, std, i)
}

type configCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help gives examples.
func (configCmd) Help() string {
	return `Examples:

  fairlead config
  fairlead config --json --config /etc/fairlead.yaml

Whether a provider's key is there is told, never the key.`
}

// Run prints the settings.
func (s configCmd) Run(c *cli, std stdio) error {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	if s.JSON {
		return cfg.printJSON(std.Out)
	}
	return cfg.print(std.Out)
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(std stdio) error {
	_, err := fmt.Fprintf(std.Out, "fairlead %s (%s, %s/%s)\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// programVersion is what the linker was told, else what Go knows of the build.
func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); version == "dev" && ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
