// Package pgtest gives tests a real PostgreSQL. The first test of a binary that
// asks for a database starts a server in a temporary folder, reached over a socket
// in it; each test gets a schema of its own there, or a copy of a database that is
// prepared once. Durability of the server is off: it lives as long as the test
// binary.
//
// The server is the child of a shell that waits for the end of a pipe which the
// test binary holds: however the binary ends, killed or not, the server ends with
// it and its folder is removed. No goroutine is left for the tests of leaks.
//
// Without an installed server tests that need one are left out, unless the
// environment says TEST_POSTGRES=required. It is imported by test files alone.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Required is the variable that makes the absence of a server a failure, with
// the value "required".
const Required = "TEST_POSTGRES"

// startTimeout is generous: the first start reads the server from a cold disk.
const startTimeout = 60 * time.Second

// script runs the server and waits for the end of standard input.
const script = `
set -e
"$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$2/initdb.log" 2>&1
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c full_page_writes=off \
	-c max_connections=300 -c deadlock_timeout=100ms >"$2/server.log" 2>&1 &
read -r _ || true
kill -QUIT $! || true
wait || true
rm -rf "$2"
`

var errAbsent = errors.New("no PostgreSQL server is installed (apt-get install postgresql)")

// server is the one of this test binary; keep holds it up.
type server struct {
	dir  string
	keep *os.File
}

var shared = sync.OnceValues(start)

// places numbers schemas and databases.
var places atomic.Int64

// templates are the databases that Copy copies, by name.
var templates sync.Map

// Available tells whether databases can be had. Where they must be and cannot,
// the test fails.
func Available(t testing.TB) bool {
	t.Helper()
	if _, err := binaries(); err != nil {
		if os.Getenv(Required) == "required" {
			t.Fatal(err)
		}
		return false
	}
	return true
}

// URL gives the address of an empty database, which other tests do not see; the
// test is left out where there is no server. It has no password.
func URL(t testing.TB) string {
	t.Helper()
	s := running(t)
	schema := fmt.Sprintf("s%d", places.Add(1))
	if err := s.exec(context.Background(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatalf("make a schema: %v", err)
	}
	// The name of the application tells the backends of a test from others.
	return s.url("search_path", schema, "application_name", schema)
}

// Copy gives the address of a database of its own that is as prepare left the
// first one of the same name: some 50 ms, where making many tables takes a second.
// It is dropped with the test, which is left out where there is no server.
func Copy(t testing.TB, name string, prepare func(url string) error) string {
	t.Helper()
	s := running(t)
	once, _ := templates.LoadOrStore(name, sync.OnceValue(func() error {
		ctx := context.Background()
		if err := s.exec(ctx, "CREATE DATABASE "+name); err != nil {
			return err
		}
		return prepare(s.at(name))
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatalf("prepare the database %s: %v", name, err)
	}
	database := fmt.Sprintf("d%d", places.Add(1))
	if err := s.exec(context.Background(), "CREATE DATABASE "+database+" TEMPLATE "+name+" STRATEGY file_copy"); err != nil {
		t.Fatalf("copy the database %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := s.exec(context.Background(), "DROP DATABASE "+database+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.at(database, "application_name", database)
}

// running gives the server; without one the test is left out.
func running(t testing.TB) *server {
	t.Helper()
	if !Available(t) {
		t.Skip(errAbsent)
	}
	s, err := shared()
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	return s
}

func (s *server) url(params ...string) string { return s.at("postgres", params...) }

// at is the address of a database.
func (s *server) at(database string, params ...string) string {
	q := url.Values{"host": {s.dir}, "user": {"postgres"}}
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	return "postgres:///" + database + "?" + q.Encode()
}

func (s *server) exec(ctx context.Context, query string) (err error) {
	c, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	_, err = c.Exec(ctx, query)
	return err
}

// binaries finds the folder of the server's programs, the newest version first.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, filepath.Dir(path))
		}
	}
	for _, dir := range found {
		_, noInit := os.Stat(filepath.Join(dir, "initdb"))
		_, noServer := os.Stat(filepath.Join(dir, "postgres"))
		if noInit == nil && noServer == nil {
			return dir, nil
		}
	}
	return "", errAbsent
}

func version(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

func start() (_ *server, err error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	// Short, since the path of a socket holds 107 bytes, and a place that the
	// server's user can enter.
	dir, err := os.MkdirTemp("/tmp", "pg")
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Setpgid: true} // the interrupt key is for the tests alone
	if os.Geteuid() == 0 {
		if attr.Credential, err = unprivileged(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid)); err != nil {
			return nil, err
		}
	}
	down, keep, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// It outlives the test that happens to start it.
	cmd := exec.Command("/bin/sh", "-c", script, "sh", bin, dir) //nolint:gosec,noctx // see above
	cmd.Dir, cmd.Stdin, cmd.SysProcAttr = dir, down, attr
	if err := errors.Join(cmd.Start(), down.Close()); err != nil {
		return nil, errors.Join(err, keep.Close())
	}
	s := &server{dir: dir, keep: keep}
	return s, s.await()
}

// unprivileged is the user that the server runs as for root, which it refuses.
func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("there is no user that the server could run as")
}

// await waits until the server answers.
func (s *server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := s.exec(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, s.logs(), s.keep.Close())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *server) logs() error {
	var all []string
	for _, name := range []string{"initdb.log", "server.log"} {
		if text, err := os.ReadFile(filepath.Join(s.dir, name)); err == nil {
			all = append(all, string(text))
		}
	}
	return errors.New(strings.Join(all, "\n"))
}
