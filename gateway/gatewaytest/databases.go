package gatewaytest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"
	_ "modernc.org/sqlite"             // registers "sqlite"

	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

// The names of the databases that the gateway's store runs on: SQLite with the
// driver that ships and with the fallback, and PostgreSQL.
const (
	SQLite3  = "sqlite3"
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Database is a kind of database.
//
//	for _, d := range gatewaytest.Databases(t) {
//		t.Run(d.Name, func(t *testing.T) {
//			t.Parallel()
//			place := d.New(t)                       // an empty database
//			store := place.Open(t)                  // closed with the test, or before
//			raw := place.Raw(t)                     // a second way in, for locks
//			waiters, err := place.Waiters(t.Context())
//		})
//	}
type Database struct{ Name string }

// Databases lists the kinds that can be had here, only of the given names if there
// are any. PostgreSQL is left out where no server is installed, unless
// TEST_POSTGRES=required: then the test fails.
func Databases(t testing.TB, names ...string) (list []Database) {
	t.Helper()
	for _, name := range []string{SQLite3, SQLite, Postgres} {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		if name == Postgres && !pgtest.Available(t) {
			continue
		}
		list = append(list, Database{Name: name})
	}
	return list
}

// Open opens a store on an empty database; it is closed with the test.
func (d Database) Open(t testing.TB) *gatewaysql.Store {
	t.Helper()
	return d.New(t).Open(t)
}

// New makes an empty database, which goes with the test. Its tables are there: they
// are made once and copied, which takes some 50 ms on PostgreSQL.
func (d Database) New(t testing.TB) *Place {
	t.Helper()
	p := &Place{Kind: d}
	if d.Name == Postgres {
		p.Options = gatewaysql.Options{URL: pgtest.Copy(t, "gateway", migrate)}
	} else {
		p.Options = gatewaysql.Options{Path: filepath.Join(t.TempDir(), "gateway.db"), Driver: d.Name}
		file, err := emptyFile()
		if err == nil {
			err = os.WriteFile(p.Options.Path, file, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// emptyFile is an SQLite file with all tables, made once.
var emptyFile = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "gatewaytest")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "gateway.db")
	store, err := gatewaysql.Open(context.Background(), gatewaysql.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// migrate makes the tables of a PostgreSQL database.
func migrate(url string) error {
	store, err := gatewaysql.Open(context.Background(), gatewaysql.Options{URL: url})
	if err != nil {
		return err
	}
	return store.Close()
}

// Place is one database. It may be opened again after its store was closed, as
// after a restart, and by several at once, as by a second process.
type Place struct {
	Kind Database
	// Options are those of gatewaysql.Open; a test that opens by itself closes, too.
	Options gatewaysql.Options

	mu     sync.Mutex
	stores []*gatewaysql.Store
	raw    *sql.DB
}

// Open opens the database. Closing the store before the end of the test is
// allowed.
func (p *Place) Open(t testing.TB) *gatewaysql.Store {
	t.Helper()
	store, err := gatewaysql.Open(context.Background(), p.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stores = append(p.stores, store)
	return store
}

// Raw gives connections of their own to the database, past the store. On SQLite
// a transaction begun with "BEGIN IMMEDIATE" keeps the store from writing, for at
// most the five seconds of its busy timeout; on PostgreSQL "SELECT … FOR UPDATE"
// holds rows, and placeholders are $1, $2.
func (p *Place) Raw(t testing.TB) *sql.DB {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raw != nil {
		return p.raw
	}
	driver, dsn := "pgx", p.Options.URL
	if p.Kind.Name != Postgres {
		driver, dsn = p.Kind.Name, "file:"+p.Options.Path+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	p.raw = db
	return db
}

// Waiters counts the updates that wait for a lock which others hold. On SQLite
// these are the ones behind the running update, of the stores that Open gave; on
// PostgreSQL the backends of this database that wait for a row. (One that waits
// for what Raw holds on SQLite is running and is not counted.)
func (p *Place) Waiters(ctx context.Context) (n int, err error) {
	if p.Kind.Name != Postgres {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, s := range p.stores {
			n += s.Waiting()
		}
		return n, nil
	}
	db, err := sql.Open("pgx", p.Options.URL)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	// The name of the application is this database's alone: see pgtest.
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE application_name = current_setting('application_name') AND wait_event_type = 'Lock'`).Scan(&n)
	return n, err
}

// AwaitWaiters returns once n updates wait (see Waiters), or fails the test.
func (p *Place) AwaitWaiters(t testing.TB, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		got, err := p.Waiters(ctx)
		if err != nil {
			t.Fatalf("waiters: %v (had %d, want %d)", err, got, n)
		}
		if got >= n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d updates wait, want %d", got, n)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
