package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal"
	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
)

// Exit codes of chat beside those of every command.
const (
	chatFailed      = 4
	chatStopped     = 5
	chatTimedOut    = 6
	chatRefused     = 7
	chatLogin       = 8
	chatUnreachable = 9
)

const (
	chatURL       = "FAIRLEAD_URL"
	chatToken     = "FAIRLEAD_TOKEN"
	defaultServer = "http://127.0.0.1:8080"
	maxPrompt     = 1 << 20
)

type chatCmd struct {
	Prompt []string `arg:"" optional:"" placeholder:"PROMPT" help:"What to say. Without it: standard input, or a conversation if that is a terminal."`

	URL       string        `name:"url" placeholder:"URL" help:"Server. Default: $FAIRLEAD_URL, that of the last --login, http://127.0.0.1:8080."`
	TokenFile string        `placeholder:"FILE" type:"path" help:"File with the token. Default: $FAIRLEAD_TOKEN, what --login has stored."`
	Login     string        `placeholder:"URL" xor:"what" help:"Read a token from standard input, try it, and store it for this server."`
	List      bool          `xor:"what" help:"List the threads, newest change first."`
	Thread    string        `placeholder:"ID" xor:"thread" help:"Go on with a thread; 'last' is the one with the newest change."`
	New       bool          `xor:"thread" help:"Begin a new thread. A prompt does so anyway; a conversation otherwise goes on with the last one."`
	Model     string        `placeholder:"NAME" help:"Model of the message, and of a thread that it makes."`
	Assistant string        `placeholder:"NAME" help:"Assistant of a new thread, by name or id."`
	Effort    string        `placeholder:"LEVEL" help:"How much the model is to reason, as far as it can be told."`
	JSON      bool          `name:"json" help:"Print one JSON object a line: events, deltas, states, the end."`
	GiveUp    time.Duration `default:"2m" placeholder:"DURATION" help:"How long a server that went away is waited for; 0 is for ever. Default: 2m."`
}

// Help gives examples and exit codes.
func (chatCmd) Help() string {
	return `Examples:

  fairlead chat --login https://chat.example.com < token.txt
  fairlead chat
  fairlead chat "What is a monad?"
  git diff | fairlead chat --model claude-sonnet --json

The answer goes to standard output, all else to standard error. Ctrl-C stops the answer; once more leaves at once.

Exit codes: 0 completed, 1 something else failed, 2 wrong arguments, 4 the turn failed, 5 it was stopped, 6 it ran out of time, 7 refused or taken back, 8 log in first, 9 the server cannot be reached.`
}

// chatEnd is an exit code of its own. err is nil when all was said already.
type chatEnd struct {
	code int
	err  error
}

func (e *chatEnd) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *chatEnd) Unwrap() error { return e.err }

// Run chats.
func (c chatCmd) Run(ctx context.Context, std stdio) error {
	if c.Login != "" {
		return endOf(c.login(ctx, std))
	}
	server, err := c.server(std)
	if err != nil {
		return err
	}
	if c.List {
		return endOf(terminal.List{Server: server, Out: std.Out, JSON: c.JSON}.Run(ctx))
	}
	prompt, talk, err := c.prompt(std)
	if err != nil {
		return err
	}
	if talk {
		return endOf(c.talk(ctx, std, server))
	}
	_, onTerminal := terminal.IsTerminal(std.Out)
	outcome, err := terminal.Once{
		Server: server, Thread: c.Thread, Prompt: prompt, Draft: c.draft(), Assistant: c.Assistant,
		Out: std.Out, Err: std.Err, Terminal: onTerminal, JSON: c.JSON,
	}.Run(ctx)
	if err != nil {
		return endOf(err)
	}
	return ended(outcome)
}

func ended(o terminal.Outcome) error {
	switch o {
	case terminal.Completed:
		return nil
	case terminal.Failed:
		return &chatEnd{code: chatFailed}
	case terminal.Stopped:
		return &chatEnd{code: chatStopped}
	case terminal.TimedOut:
		return &chatEnd{code: chatTimedOut}
	case terminal.Refused:
		return &chatEnd{code: chatRefused}
	}
	return &chatEnd{code: chatStopped, err: errors.New("left before anything was sent")}
}

// endOf gives an error its exit code.
func endOf(err error) error {
	var refused *client.RefusedError
	var unreachable *client.UnreachableError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrLogin):
		return &chatEnd{chatLogin, err}
	case errors.As(err, &unreachable):
		return &chatEnd{chatUnreachable, err}
	case errors.As(err, &refused):
		return &chatEnd{chatRefused, errors.New(terminal.Line(err.Error()))}
	}
	if said, ok := terminal.Refusal(err); ok {
		return &chatEnd{chatRefused, errors.New(said)}
	}
	return err
}

func (c chatCmd) draft() client.Command {
	draft := client.Command{Model: c.Model}
	if c.Effort != "" {
		draft.Options = &client.SendOptions{ReasoningEffort: c.Effort}
	}
	return draft
}

// prompt is what to say; talk asks for a conversation instead.
func (c chatCmd) prompt(std stdio) (prompt string, talk bool, err error) {
	if len(c.Prompt) > 0 {
		return strings.Join(c.Prompt, " "), false, nil
	}
	if _, ok := terminal.IsTerminal(std.In); ok {
		if _, ok := terminal.IsTerminal(std.Out); !ok || c.JSON {
			return "", false, &usageError{"say something: fairlead chat \"…\", or give it on standard input"}
		}
		return "", true, nil
	}
	raw, err := io.ReadAll(io.LimitReader(std.In, maxPrompt+1))
	switch {
	case err != nil:
		return "", false, fmt.Errorf("read the prompt from standard input: %w", err)
	case len(raw) > maxPrompt:
		return "", false, &usageError{"the prompt on standard input is too long"}
	case strings.TrimSpace(string(raw)) == "":
		return "", false, &usageError{"there is no prompt: neither an argument nor on standard input"}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"), false, nil
}

// talk converses on a terminal.
func (c chatCmd) talk(ctx context.Context, std stdio, server client.Options) error {
	in, _ := terminal.IsTerminal(std.In)
	out, _ := terminal.IsTerminal(std.Out)
	server.GiveUp, server.Patient = 0, true
	talk := terminal.Talk{
		Server: server, Thread: c.Thread, Draft: c.draft(), Assistant: c.Assistant, Screen: terminal.NewScreen(out),
	}
	if talk.Thread == "" && !c.New {
		talk.Thread = terminal.Last
	}
	talk.Screen.Columns = func() int { return terminal.Columns(out) }
	if environ(std, "TERM") == "dumb" {
		lines := terminal.OpenLines(in)
		defer lines.Close()
		talk.Plain, talk.Keys = true, lines.Keys()
		return talk.Run(ctx)
	}
	tty, err := terminal.OpenTTY(in, out)
	if err != nil {
		return err
	}
	defer tty.Close()
	talk.Keys = tty.Keys()
	talk.Screen.Live, talk.Screen.Colour = true, environ(std, "NO_COLOR") == ""
	return talk.Run(ctx)
}

// server is where to connect and as whom. A token that was stored goes to its own
// server alone.
func (c chatCmd) server(std stdio) (client.Options, error) {
	logins, err := readLogins(std)
	if err != nil {
		return client.Options{}, err
	}
	address := firstOf(c.URL, environ(std, chatURL), logins.Last, defaultServer)
	server, err := serverURL(address)
	if err != nil {
		return client.Options{}, err
	}
	token, err := c.token(std, logins, server)
	if err != nil {
		return client.Options{}, err
	}
	warnPlain(std, server)
	return client.Options{URL: server, Token: token, Agent: "fairlead-chat/" + programVersion(), GiveUp: c.GiveUp}, nil
}

func (c chatCmd) token(std stdio, logins *logins, server string) (string, error) {
	if c.TokenFile != "" {
		raw, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		return strings.TrimSpace(string(raw)), nil
	}
	token := firstOf(strings.TrimSpace(environ(std, chatToken)), logins.Tokens[server])
	if token == "" {
		return "", &chatEnd{chatLogin, fmt.Errorf("no token for %s: log in with fairlead chat --login %s, or set FAIRLEAD_TOKEN", server, server)}
	}
	return token, nil
}

// serverURL checks an address and writes it in one way.
func serverURL(address string) (string, error) {
	u, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", &usageError{"the server is an address such as https://chat.example.com"}
	}
	return u.String(), nil
}

// warnPlain tells that a token travels readable to another machine.
func warnPlain(std stdio, server string) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "https" || u.Hostname() == "localhost" {
		return
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		_, _ = fmt.Fprintf(std.Err, "fairlead: %s is not encrypted: the token can be read on the way\n", server)
	}
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// environ is a variable of the command's surroundings.
func environ(std stdio, name string) string {
	value := ""
	for _, entry := range std.Environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// chatVariable tells whether a FAIRLEAD_… variable is of chat and no setting.
func chatVariable(name string) bool { return name == chatURL || name == chatToken }
