package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

type hostJoinCmd struct {
	URL      string `arg:"" placeholder:"URL" help:"Address of the gateway, as in a browser."`
	Token    string `arg:"" placeholder:"TOKEN" help:"Token of an invitation; - reads it from standard input."`
	Name     string `placeholder:"NAME" help:"What the host is called. Default: host.name, else the machine's name."`
	Replace  bool   `help:"Leave the gateway that this host belongs to, or take a new key."`
	Insecure bool   `help:"Take http:// to another machine, where the way is encrypted otherwise."`
}

// Help gives examples.
func (hostJoinCmd) Help() string {
	return `Examples:

  fairlead host join https://chat.example.com fh_…
  fairlead host join --name "GPU box" https://chat.example.com - < token.txt

An admin makes the token with "fairlead admin host invite"; it works once, for 15
minutes. With - it does not stand in the list of processes or the shell's history.
The key that is made stays in data_dir. If the answer is lost, run the same again.`
}

// Run joins the host to a gateway.
func (j hostJoinCmd) Run(ctx context.Context, c *cli, std stdio) error {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	if j.Token == "-" {
		if j.Token, err = readToken(std.In); err != nil {
			return err
		}
	}
	return runHostJoin(ctx, cfg, std, j)
}

const maxTokenInput = 1024

func readToken(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxTokenInput+1))
	token := strings.TrimSpace(string(raw))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the token from standard input: %w", err)
	case token == "" || len(raw) > maxTokenInput || strings.ContainsAny(token, " \t\r\n"):
		return "", &usageError{"standard input must be the token of the invitation alone, one word"}
	}
	return token, nil
}

// runHostJoin makes this folder the host of a gateway. It takes the host's lock, so
// that no running host loses its key under way. Nothing is kept of a gateway that
// answers for another host or in place of the one that the folder belongs to (RH45).
func runHostJoin(ctx context.Context, cfg *config, std stdio, cmd hostJoinCmd) (err error) {
	base, err := parseGatewayURL(cmd.URL, cmd.Insecure)
	if err != nil {
		return err
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return err
	}
	dir := hostDir(cfg)
	owner, err := relay.Own(ctx, dir)
	if err != nil {
		return readable(err)
	}
	defer func() { err = errors.Join(err, owner.Release()) }()
	target, err := targetRef(dir)
	if err != nil {
		return readable(err)
	}
	old, err := readEnrolment(dir)
	if err != nil && !cmd.Replace {
		return readable(err)
	}
	if old != nil && !cmd.Replace && old.URL != base {
		return fmt.Errorf("this host belongs to %s already; --replace has it leave that gateway, whose chats it then answers no more", old.URL)
	}
	key, err := joinKey(dir, old, cmd.Replace)
	if err != nil {
		return readable(err)
	}
	joined, err := askToJoin(ctx, base, wire.HostJoin{
		Token: cmd.Token, HostID: target, PublicKey: publicText(key), Name: hostName(cfg, cmd.Name), Version: programVersion(),
	})
	if errors.Is(err, errKeyRevoked) && (old == nil || cmd.Replace) {
		return errors.Join(err, dropUnusedKey(dir))
	}
	if err != nil {
		return err
	}
	switch {
	case joined.HostID != target:
		return errors.New("the gateway answered for another host; nothing was kept")
	case old != nil && !cmd.Replace && joined.GatewayID != old.GatewayID:
		return fmt.Errorf("%s is another gateway than the one that this host belongs to; nothing was kept. If that is right, use --replace", base)
	}
	e := enrolment{
		URL: base, GatewayID: joined.GatewayID, HostID: target, PublicKey: publicText(key), Insecure: cmd.Insecure,
	}
	if err := e.write(dir); err != nil {
		return err
	}
	if _, err := keyInForce(dir, &e); err != nil {
		return readable(err)
	}
	return announceJoined(std.Out, joined.Name, base, cfg.DataDir)
}

// joinKey is the key to join with: the one in force, or, for a folder that is not
// enrolled or is to get another one, one that no gateway had before.
func joinKey(dir string, old *enrolment, replace bool) (ed25519.PrivateKey, error) {
	if old == nil {
		return unusedKey(dir)
	}
	key, err := keyInForce(dir, old)
	switch {
	case replace:
		return unusedKey(dir)
	case err != nil:
		return nil, err
	case key == nil:
		return nil, errKeyGone()
	}
	return key, nil
}

// askToJoin says of a refusal what to do about it.
func askToJoin(ctx context.Context, base string, req wire.HostJoin) (wire.HostJoined, error) {
	client := newGatewayClient(base)
	defer client.close()
	joined, err := client.join(ctx, req)
	var refused *link.RefusedError
	var wrong *answerError
	switch {
	case err == nil:
		return joined, nil
	case errors.As(err, &wrong):
		return joined, fmt.Errorf("%s: %w", base, err)
	case !errors.As(err, &refused):
		return joined, fmt.Errorf("%s: %w. If the token was sent, it is used up for this host alone: run the same command again", base, err)
	}
	return joined, joinRefused(base, refused)
}

var errKeyRevoked = errors.New("use --replace, which makes a new key")

func joinRefused(base string, e *link.RefusedError) error {
	switch e.Code {
	case wire.CodeHostRevoked:
		return fmt.Errorf("%s (%s); %w", e.Message, e.Code, errKeyRevoked)
	case "":
		return fmt.Errorf("%s answered %d: it is not a Fairlead gateway, or what stands before it does not let %s through", base, e.Status, wire.PathHostJoin)
	}
	if e.RetryAfter > 0 {
		return fmt.Errorf("%s (%s); wait %s and run the same again", e.Message, e.Code, e.RetryAfter)
	}
	return fmt.Errorf("%s (%s)", e.Message, e.Code)
}

// hostName is what the host is called: a setting that nobody wrote is the name of an
// embedded host, which this one is not.
func hostName(cfg *config, name string) string {
	if name != "" {
		return name
	}
	if _, set := cfg.origins["host.name"]; set {
		return cfg.Host.Name
	}
	if machine, err := os.Hostname(); err == nil && machine != "" {
		return machine
	}
	return "relay host"
}

func announceJoined(w io.Writer, name, base, dataDir string) error {
	_, err := fmt.Fprintf(w, `Joined %s as %q. What belongs to this host is in %s.

Next: name this machine's providers under host.providers (docs/providers.md), then,
with the same data_dir,

  fairlead host run        serve that gateway from here
  fairlead host install    have systemd do it
`, base, wire.ShownText(name), dataDir)
	return err
}
