package sqldb_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/fairlead/fairlead/relay/sqldb"
)

// faulty is the SQLite driver with a COMMIT that can be made to fail, before or
// after the real one.
type faulty struct {
	real          driver.Driver
	before, after atomic.Pointer[error]
}

// register makes f a driver under the name of the test.
func (f *faulty) register(t *testing.T) string {
	t.Helper()
	pool, err := sql.Open("sqlite3", "file:unused")
	if err != nil {
		t.Fatal(err)
	}
	f.real = pool.Driver()
	_ = pool.Close()
	name := fmt.Sprintf("faulty-%s-%p", t.Name(), f) // a name is taken for ever
	sql.Register(name, f)
	return name
}

func (f *faulty) Open(name string) (driver.Conn, error) {
	c, err := f.real.Open(name)
	return faultyConn{c, f}, err
}

type faultyConn struct {
	driver.Conn
	f *faulty
}

func (c faultyConn) Prepare(query string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(query)
	if err == nil && strings.TrimSpace(query) == "COMMIT" {
		s = faultyCommit{s, c.f}
	}
	return s, err
}

type faultyCommit struct {
	driver.Stmt
	f *faulty
}

func (s faultyCommit) Exec(args []driver.Value) (driver.Result, error) {
	if err := s.f.before.Swap(nil); err != nil {
		return nil, *err
	}
	res, err := s.Stmt.Exec(args) //nolint:staticcheck // the one method that a wrapper needs
	if fault := s.f.after.Swap(nil); fault != nil {
		return nil, *fault
	}
	return res, err
}

func TestFailedCommit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		err           error
		after         bool
		indeterminate bool
		stored        int // of three, the last one after the fault
	}{
		{name: "busy, not persisted", err: sqlite3.BUSY, stored: 2},
		{name: "disk full, not persisted", err: sqlite3.FULL, stored: 2},
		{name: "sync failed, not persisted", err: sqlite3.IOERR_FSYNC, indeterminate: true, stored: 1},
		{name: "sync failed, but persisted", err: sqlite3.IOERR_FSYNC, after: true, indeterminate: true, stored: 2},
		{name: "unknown error", err: errors.New("unplugged"), indeterminate: true, stored: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path, f := newPath(t), &faulty{}
			db := openAt(t, path, f.register(t))
			if err := insert(t.Context(), db, 1, 1); err != nil {
				t.Fatal(err)
			}
			if tt.after {
				f.after.Store(&tt.err)
			} else {
				f.before.Store(&tt.err)
			}
			hooked := false
			err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
				tx.OnCommit(func() { hooked = true })
				_, err := tx.Exec(t.Context(), "INSERT INTO rows (producer, n) VALUES (2, 1)")
				return err
			})
			if err == nil || errors.Is(err, sqldb.ErrIndeterminate) != tt.indeterminate || !errors.Is(err, tt.err) {
				t.Errorf("the update: %v, indeterminate want %v", err, tt.indeterminate)
			}
			if hooked {
				t.Error("a hook ran without a commit")
			}
			err = insert(t.Context(), db, 3, 1)
			if errors.Is(err, sqldb.ErrIndeterminate) != tt.indeterminate {
				t.Errorf("a later update: %v, refused want %v", err, tt.indeterminate)
			}
			select {
			case <-db.Broken():
				if !tt.indeterminate {
					t.Error("the database says that it is broken")
				}
			default:
				if tt.indeterminate {
					t.Error("the database does not say that it is broken")
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if n := count(t, openAt(t, path, "sqlite3")); n != tt.stored {
				t.Errorf("%d rows after reopening, want %d", n, tt.stored)
			}
		})
	}
}
