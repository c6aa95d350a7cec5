package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

const databasePassword = "s3cret-pw"

// postgresURL names an empty database, with a password that the server does not
// ask for.
func postgresURL(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("postgres", databasePassword)
	return u.String()
}

func TestNoDatabasePasswordIsShown(t *testing.T) {
	t.Parallel()
	const address = "postgres://ann:" + databasePassword + "@127.0.0.1:1/db?connect_timeout=1&password=" + databasePassword
	file := filepath.Join(t.TempDir(), "fairlead.yaml")
	if err := os.WriteFile(file, []byte("database_url: "+address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // in what is printed
	}{
		{"config", []string{"config", "--database-url", address}, exitDone, "postgres://ann:xxxxx@127.0.0.1:1/db"},
		{"config as JSON", []string{"config", "--json", "--set", "database_url=" + address}, exitDone, "postgres://ann:xxxxx@127.0.0.1:1/db"},
		{"config of a file", []string{"config", "--config", file}, exitDone, "postgres://ann:xxxxx@127.0.0.1:1/db"},
		{"a wrong address", []string{"config", "--database-url", "postgres://ann:#" + databasePassword + "@127.0.0.1:x/db"}, exitSettings, "--database-url: database_url: must be postgres://"},
		{"another database", []string{"serve", "--database-url", "mysql://ann:" + databasePassword + "@127.0.0.1/db"}, exitSettings, "must be postgres://"},
		{"serve", []string{"serve", "--listen", "127.0.0.1:0", "--log-level", "debug", "--database-url", address}, exitFailed, "cannot be reached. See that the server runs"},
		{"admin", []string{"admin", "token", "create", "--email", "a@example.com", "--scopes", "chat", "--ttl", "1h", "--config", file}, exitFailed, "cannot be reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, "", c.args...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, c.code, c.want, stdout, stderr)
			}
			if strings.Contains(stdout+stderr, databasePassword) {
				t.Errorf("the password is shown:\n%s%s", stdout, stderr)
			}
		})
	}
}

func TestPostgresThatIsNotOursIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prepare, want string }{
		"another program's tables": {`CREATE TABLE theirs (n INTEGER)`, "holds the tables of another program. It was left as it is"},
		"a newer release": {
			`CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id BIGINT, is_applied BOOLEAN, tstamp TIMESTAMP);
			INSERT INTO goose_db_version VALUES (1, 0, TRUE, now()), (2, 9999, TRUE, now())`,
			"was written by a newer version of the program. It was left as it is",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := postgresURL(t)
			conn, err := pgx.Connect(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			if _, err := conn.Exec(t.Context(), c.prepare); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := call(t, "", "serve", "--listen", "127.0.0.1:0", "--database-url", address)
			if code != exitFailed || !strings.Contains(stderr, c.want) || strings.Contains(stderr, databasePassword) {
				t.Errorf("exit code %d:\n%s", code, stderr)
			}
			var tables int
			err = conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_class
				WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'`).Scan(&tables)
			if err != nil || tables != 1 {
				t.Errorf("%d tables afterwards (%v), want the one before", tables, err)
			}
		})
	}
}

func TestServeAndAdminOnPostgres(t *testing.T) {
	t.Parallel()
	address := postgresURL(t)
	dir := t.TempDir()
	environ := []string{"FAIRLEAD_DATA_DIR=" + dir, "FAIRLEAD_DATABASE_URL=" + address}
	command := func(stdin string, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := run(t.Context(), args, stdio{In: strings.NewReader(stdin), Out: &out, Err: &errs, Environ: environ}); code != exitDone {
			t.Fatalf("%v: exit code %d\n%s", args, code, errs.String())
		}
		return strings.TrimSpace(out.String())
	}
	command("correct horse battery", "admin", "user", "create", "--email", "ada@example.com", "--role", "admin", "--password-stdin")

	ctx, stop := context.WithCancel(t.Context())
	out, w := io.Pipe()
	var errs strings.Builder
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}, stdio{In: strings.NewReader(""), Out: w, Err: &errs, Environ: environ})
		_ = w.Close()
	}()
	line, _ := bufio.NewReader(out).ReadString('\n')
	_, base, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("serve said %q, exit code %d\n%s", line, <-done, errs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()

	// Beside the running server, as on SQLite.
	token := command("", "admin", "token", "create", "--email", "ada@example.com", "--scopes", "chat,admin", "--ttl", "1h")
	for path, want := range map[string]int{"/readyz": http.StatusOK, "/metrics": http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s answered %d, want %d", path, res.StatusCode, want)
		}
	}
	stop()
	if code := <-done; code != exitDone {
		t.Errorf("serve ended with %d\n%s", code, errs.String())
	}
	if strings.Contains(errs.String(), databasePassword) {
		t.Error("the password is in the log")
	}
	if _, err := os.Stat(filepath.Join(dir, "gateway.db")); err == nil {
		t.Error("gateway.db was made")
	}
}

func TestASecondGatewayOfADatabaseIsRefused(t *testing.T) {
	t.Parallel()
	address := postgresURL(t)
	// start gives when the server listens, or its exit code.
	start := func(errs *strings.Builder) (stop func() int, code int) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		out, w := io.Pipe()
		done := make(chan int, 1)
		environ := []string{"FAIRLEAD_DATA_DIR=" + t.TempDir(), "FAIRLEAD_DATABASE_URL=" + address}
		go func() {
			done <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}, stdio{In: strings.NewReader(""), Out: w, Err: errs, Environ: environ})
			_ = w.Close()
		}()
		if line, _ := bufio.NewReader(out).ReadString('\n'); line == "" {
			cancel()
			return nil, <-done
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		return func() int { cancel(); return <-done }, exitDone
	}
	var first, second, third strings.Builder
	stop, code := start(&first)
	if stop == nil {
		t.Fatalf("exit code %d\n%s", code, first.String())
	}
	if again, code := start(&second); again != nil || code != exitFailed || !strings.Contains(second.String(), "is in use by another gateway") {
		t.Errorf("the second ended with %d:\n%s", code, second.String())
	}
	if strings.Contains(second.String(), databasePassword) {
		t.Error("the password is shown")
	}
	if code := stop(); code != exitDone {
		t.Errorf("the first ended with %d\n%s", code, first.String())
	}
	if stop, code = start(&third); stop == nil {
		t.Fatalf("after the first had ended: exit code %d\n%s", code, third.String())
	}
	stop()
}
