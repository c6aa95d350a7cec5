package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachTestHasASchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	for range 2 {
		c, err := pgx.Connect(t.Context(), pgtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), "CREATE TABLE same (n INTEGER)"); err != nil {
			t.Error(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
