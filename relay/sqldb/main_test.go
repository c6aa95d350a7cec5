package sqldb_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := crashChild(path); err != nil {
			fmt.Println("error", err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const postgres = "postgres"

// eachDriver runs a test on the driver that ships and on the fallback.
func eachDriver(t *testing.T, test func(t *testing.T, driver string)) {
	t.Helper()
	each(t, test, "sqlite3", "sqlite")
}

// eachDatabase runs a test on PostgreSQL as well.
func eachDatabase(t *testing.T, test func(t *testing.T, driver string)) {
	t.Helper()
	each(t, test, "sqlite3", "sqlite", postgres)
}

func each(t *testing.T, test func(t *testing.T, driver string), drivers ...string) {
	t.Helper()
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, driver)
		})
	}
}

func schema() fstest.MapFS {
	return fstest.MapFS{"0001_rows.sql": {Data: []byte(`-- +goose Up
CREATE TABLE parent (id INTEGER PRIMARY KEY);
CREATE TABLE rows (
	producer INTEGER NOT NULL,
	n        INTEGER NOT NULL,
	body     TEXT    NOT NULL DEFAULT '',
	parent   INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED,
	PRIMARY KEY (producer, n)
);
`)}}
}

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "host.db")
}

// newPlace names an empty database.
func newPlace(t testing.TB, driver string) string {
	t.Helper()
	if driver == postgres {
		return pgtest.URL(t)
	}
	return newPath(t)
}

// openAt opens what newPath or newPlace gave.
func openAt(t testing.TB, place, driver string, change ...func(*sqldb.Options)) *sqldb.DB {
	t.Helper()
	o := sqldb.Options{Path: place, Driver: driver}
	if driver == postgres {
		o = sqldb.Options{URL: place}
	}
	for _, f := range change {
		f(&o)
	}
	db, err := sqldb.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := db.Migrate(context.Background(), schema()); err != nil {
		t.Fatal(err)
	}
	return db
}

// oneWriter lets one update run at a time on PostgreSQL, too.
func oneWriter(o *sqldb.Options) { o.Writers = 1 }

func insert(ctx context.Context, db *sqldb.DB, producer, n int) error {
	return db.Update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO rows (producer, n) VALUES (?, ?)", producer, n)
		return err
	})
}

func count(t testing.TB, db *sqldb.DB) (n int) {
	t.Helper()
	err := db.View(context.Background(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(context.Background(), "SELECT count(*) FROM rows").Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
