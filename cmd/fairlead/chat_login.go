package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal"
	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
)

const maxToken = 4096

// logins is what --login has stored: a token for each server.
type logins struct {
	path string

	Last   string            `json:"last"`
	Tokens map[string]string `json:"tokens"`
}

// login reads a token, tries it, and stores it.
func (c chatCmd) login(ctx context.Context, std stdio) error {
	server, err := serverURL(c.Login)
	if err != nil {
		return err
	}
	known, err := readLogins(std)
	if err != nil {
		return err
	}
	if known.path == "" {
		return errors.New("there is no folder to store the login in: set HOME")
	}
	token, err := readLoginToken(std)
	if err != nil {
		return err
	}
	warnPlain(std, server)
	who, err := terminal.Check(ctx, client.Options{URL: server, Token: token, Agent: "fairlead-chat/" + programVersion()})
	if err != nil {
		return err
	}
	known.Last, known.Tokens[server] = server, token
	if err := known.write(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(std.Err, "fairlead: logged in to %s as %s; the token is kept in %s\n", server, terminal.Line(who.Name), known.path)
	return nil
}

func readLoginToken(std stdio) (string, error) {
	if tty, ok := terminal.IsTerminal(std.In); ok {
		_, _ = fmt.Fprint(std.Err, "Token: ")
		raw, err := terminal.ReadSecret(tty)
		_, _ = fmt.Fprintln(std.Err)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		return checkedToken(raw)
	}
	raw, err := io.ReadAll(io.LimitReader(std.In, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("read the token from standard input: %w", err)
	}
	return checkedToken(raw)
}

func checkedToken(raw []byte) (string, error) {
	token := strings.TrimSpace(string(raw))
	if token == "" || len(token) > maxToken || strings.ContainsAny(token, " \t\r\n") {
		return "", &usageError{"standard input must hold the token and nothing else"}
	}
	return token, nil
}

// readLogins reads what is stored; nothing stored is no error.
func readLogins(std stdio) (*logins, error) {
	l := &logins{Tokens: map[string]string{}}
	folder := configFolder(std)
	if folder == "" {
		return l, nil
	}
	l.path = filepath.Join(folder, "fairlead", "logins.json")
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the stored logins: %w", err)
	}
	if err := json.Unmarshal(raw, l); err != nil {
		return nil, fmt.Errorf("%s is damaged; remove it and log in again: %w", l.path, err)
	}
	if l.Tokens == nil {
		l.Tokens = map[string]string{}
	}
	return l, nil
}

// write stores the logins, readable for their owner alone.
func (l *logins) write() error {
	raw, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("store the login: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return fmt.Errorf("store the login: %w", err)
	}
	if err := writePrivate(l.path, append(raw, '\n')); err != nil {
		return fmt.Errorf("store the login: %w", err)
	}
	return nil
}

// configFolder is the user's folder for settings, "" if there is none.
func configFolder(std stdio) string {
	if folder := environ(std, "XDG_CONFIG_HOME"); filepath.IsAbs(folder) {
		return folder
	}
	home := environ(std, "HOME")
	switch {
	case runtime.GOOS == "windows":
		return environ(std, "AppData")
	case home == "":
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support")
	}
	return filepath.Join(home, ".config")
}
