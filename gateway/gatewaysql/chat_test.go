package gatewaysql_test

import (
	"context"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
)

func TestChatStore(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite3", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			gatewaytest.ChatStore(t, func(t *testing.T) gateway.ChatStore {
				t.Helper()
				store, err := gatewaysql.Open(context.Background(), gatewaysql.Options{
					Path: filepath.Join(t.TempDir(), "gateway.db"), Driver: driver,
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := store.Close(); err != nil {
						t.Error(err)
					}
				})
				return store.Chat()
			})
		})
	}
}
