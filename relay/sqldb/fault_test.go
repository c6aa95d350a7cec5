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
// after the real one, and a SAVEPOINT that can be made to fail before it.
type faulty struct {
	real                     driver.Driver
	before, after, savepoint atomic.Pointer[error]
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
	if err != nil {
		return nil, err
	}
	switch strings.TrimSpace(query) {
	case "COMMIT":
		return faultyStmt{s, &c.f.before, &c.f.after}, nil
	case "SAVEPOINT member":
		return faultyStmt{s, &c.f.savepoint, new(atomic.Pointer[error])}, nil
	}
	return s, nil
}

type faultyStmt struct {
	driver.Stmt
	before, after *atomic.Pointer[error]
}

func (s faultyStmt) Exec(args []driver.Value) (driver.Result, error) {
	if err := s.before.Swap(nil); err != nil {
		return nil, *err
	}
	res, err := s.Stmt.Exec(args) //nolint:staticcheck // the one method that a wrapper needs
	if fault := s.after.Swap(nil); fault != nil {
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

// A group that could not run again has stored nothing: a refusal that rests on what
// another member of it had done for a moment is not told.
func TestARefusalOfAnUndoneRunIsNotTold(t *testing.T) {
	t.Parallel()
	f := &faulty{}
	db := openAt(t, newPath(t), f.register(t))
	broken, taken := errors.New("unplugged"), errors.New("taken")
	f.savepoint.Store(&broken)
	errs := group(t, db,
		func(tx *sqldb.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO rows (producer, n) VALUES (1, 1)")
			return err
		},
		func(tx *sqldb.Tx) error {
			var n int
			if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM rows").Scan(&n); err != nil || n == 0 {
				return err
			}
			return taken
		})
	for i, err := range errs {
		if !errors.Is(err, broken) || errors.Is(err, taken) {
			t.Errorf("update %d: %v, want %v", i, err, broken)
		}
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
}
