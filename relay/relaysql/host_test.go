package relaysql_test

import (
	"context"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the fallback driver

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/sqldb"
)

func TestHostStore(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite3", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			relaytest.StoreSuite(t, func(t *testing.T) relay.Store {
				t.Helper()
				return relaysql.NewHost(openDB(t, driver))
			})
		})
	}
}

func openDB(t *testing.T, driver string) *sqldb.DB {
	t.Helper()
	ctx := context.Background()
	db, err := sqldb.Open(ctx, sqldb.Options{Path: filepath.Join(t.TempDir(), "host.db"), Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := db.Migrate(ctx, relaysql.Migrations()); err != nil {
		t.Fatal(err)
	}
	return db
}
