package sqldb

import (
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
)

// A statement with a bound LIMIT is compiled once, whatever it is run with.
func TestPlansAreKept(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "plans.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := <-db.engine.(*sqlite).readers
	defer func() { db.engine.(*sqlite).readers <- r }()
	if err := r.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = r.c.Raw(func(c any) error {
		s, _, err := c.(driver.Conn).Raw().Prepare("SELECT name FROM sqlite_schema WHERE name > ? ORDER BY name LIMIT ?")
		if err != nil {
			return err
		}
		defer s.Close()
		for limit := range 5 {
			if err := s.BindInt(2, limit); err != nil {
				return err
			}
			if err := s.Exec(); err != nil {
				return err
			}
		}
		if n := s.Status(sqlite3.STMTSTATUS_REPREPARE, false); n != 0 {
			t.Errorf("compiled %d times more", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
