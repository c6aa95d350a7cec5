package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

const startLimit = 30 * time.Second

// install is one data folder with its settings; it can be served, killed and
// served again.
type install struct {
	t      testing.TB
	dir    string
	config string
	env    []string
	// args are the command that start runs and ready what it prints when it is up;
	// nil is serve.
	args  []string
	ready *regexp.Regexp
	// database is the address of a PostgreSQL database, "" for the folder's own.
	database string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	url    string
	output bytes.Buffer
}

// model is a row of the settings: upstream as the provider names it.
type model struct{ id, upstream string }

// route is a provider of the settings.
type route struct {
	id, api, baseURL string
	models           []model
}

// newInstall writes settings with one chat-completions provider at providerURL.
func newInstall(t testing.TB, providerURL string, models ...model) *install {
	t.Helper()
	return installWith(t, route{"fake", "openai-chat", providerURL + "/v1", models})
}

func installWith(t testing.TB, routes ...route) *install {
	t.Helper()
	in := &install{t: t, dir: t.TempDir(), env: append(os.Environ(), "E2E_KEY="+providerKey)}
	in.config = filepath.Join(in.dir, "fairlead.yaml")
	var b strings.Builder
	fmt.Fprintf(&b, "data_dir: %s\nlisten: 127.0.0.1:0\nhost:\n  max_inflight: 200\n  providers:\n", filepath.Join(in.dir, "data"))
	for _, r := range routes {
		fmt.Fprintf(&b, "    - id: %s\n      key: %s\n      name: Scripted\n      api: %s\n      base_url: %s\n      api_key_env: E2E_KEY\n      models:\n",
			r.id, r.id, r.api, r.baseURL)
		for _, m := range r.models {
			fmt.Fprintf(&b, "        - {id: %s, upstream: %q, family: fake, max_output_tokens: supported}\n", m.id, m.upstream)
		}
	}
	if err := os.WriteFile(in.config, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.kill)
	return in
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// onPostgres keeps the gateway's side in an empty PostgreSQL database. The test is
// left out where no server is installed.
func (in *install) onPostgres() *install {
	in.t.Helper()
	in.database = pgtest.URL(in.t)
	return in.set("database_url: %q", in.database)
}

// set adds a line to the settings.
func (in *install) set(format string, args ...any) *install {
	in.t.Helper()
	file, err := os.OpenFile(in.config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		in.t.Fatal(err)
	}
	_, err = fmt.Fprintf(file, format+"\n", args...)
	if err := errors.Join(err, file.Close()); err != nil {
		in.t.Fatal(err)
	}
	return in
}

// stayAt has every life of the program listen on the same port.
func (in *install) stayAt() *install {
	in.t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		in.t.Fatal(err)
	}
	in.env = append(in.env, "FAIRLEAD_LISTEN="+taken.Addr().String())
	_ = taken.Close()
	return in
}

// start serves the folder and waits until it listens.
func (in *install) start() {
	in.t.Helper()
	args, ready := in.args, in.ready
	if args == nil {
		args, ready = []string{"serve"}, listening
	}
	cmd := exec.Command(binary, append(slices.Clone(args), "--config", in.config)...)
	cmd.Env = in.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, in2 := io.Pipe()
	cmd.Stdout, cmd.Stderr = in2, in2
	if err := cmd.Start(); err != nil {
		in.t.Fatal(err)
	}
	exited, found := make(chan struct{}), make(chan string, 1)
	go in.read(out, ready, found)
	go func() {
		_ = cmd.Wait()
		_ = in2.Close()
		close(exited)
	}()
	in.mu.Lock()
	in.cmd, in.exited = cmd, exited
	in.mu.Unlock()
	select {
	case in.url = <-found:
	case <-exited:
		in.t.Fatalf("the program ended instead of serving:\n%s", in.log())
	case <-time.After(startLimit):
		in.t.Fatalf("the program did not listen within %s:\n%s", startLimit, in.log())
	}
}

func (in *install) read(out io.Reader, ready *regexp.Regexp, found chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		in.mu.Lock()
		in.output.Write(append(lines.Bytes(), '\n'))
		in.mu.Unlock()
		if m := ready.FindSubmatch(lines.Bytes()); m != nil {
			select {
			case found <- strings.TrimSuffix(string(m[len(m)-1]), "/"):
			default:
			}
		}
	}
}

// log is everything that the program has printed, over all its lives.
func (in *install) log() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.output.String()
}

// kill ends the program with SIGKILL, in the middle of whatever it does.
func (in *install) kill() { in.signal(syscall.SIGKILL) }

// stop ends the program in good order.
func (in *install) stop() { in.signal(syscall.SIGTERM) }

func (in *install) signal(s syscall.Signal) {
	in.mu.Lock()
	cmd, exited := in.cmd, in.exited
	in.cmd = nil
	in.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s)
	<-exited
}

// tell sends a signal and leaves it to the program what it does. ended is closed
// when it has ended.
func (in *install) tell(s syscall.Signal) (ended <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	_ = in.cmd.Process.Signal(s)
	return in.exited
}

// exitCode waits until the program ends by itself.
func (in *install) exitCode() int {
	in.t.Helper()
	in.mu.Lock()
	cmd, exited := in.cmd, in.exited
	in.mu.Unlock()
	select {
	case <-exited:
	case <-time.After(startLimit):
		in.t.Fatalf("the program goes on:\n%s", in.log())
	}
	return cmd.ProcessState.ExitCode()
}

// try runs another command on the same folder that may fail, and gives all that it
// prints.
func (in *install) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(in.t.Context(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--config", in.config)...)
	cmd.Env = in.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// command runs another command of the program on the same folder.
func (in *install) command(stdin string, args ...string) string {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--config", in.config)...)
	cmd.Env = in.env
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		in.t.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// user makes an account and gives a token with the chat scope.
func (in *install) user(email string) string {
	in.t.Helper()
	in.command("a long enough password\n", "admin", "user", "create", "--email", email, "--role", "member", "--password-stdin")
	return in.command("", "admin", "token", "create", "--email", email, "--scopes", "chat", "--ttl", "24h")
}
