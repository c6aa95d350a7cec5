package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

func openURL(t *testing.T, place string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Options{URL: place})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func own(t *testing.T, db *sqldb.DB, name string) *sqldb.Ownership {
	t.Helper()
	o, err := db.Own(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Release)
	return o
}

func isLost(o *sqldb.Ownership) bool {
	select {
	case <-o.Lost():
		return true
	default:
		return false
	}
}

func TestOwnKeepsOtherProgramsOut(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	first, second := openURL(t, place), openURL(t, place)
	o := own(t, first, "part")
	own(t, second, "another part")
	own(t, openURL(t, pgtest.URL(t)), "part") // another schema
	_, err := second.Own(t.Context(), "part")
	if !errors.Is(err, sqldb.ErrClaimed) || !strings.Contains(err.Error(), "server process") {
		t.Fatalf("error %v", err)
	}
	// One that is about to end is waited for.
	took := make(chan error, 1)
	go func() {
		next, err := second.Own(t.Context(), "part")
		if err == nil {
			next.Release()
		}
		took <- err
	}()
	o.Release()
	o.Release()
	if err := <-took; err != nil {
		t.Fatal(err)
	}
	if isLost(o) {
		t.Error("what was given up counts as lost")
	}
}

const holders = ` FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 1718382455
	AND l.objid = (hashtext(current_schema() || '/part')::bigint & 4294967295)::oid`

// seek asks until a query finds something.
func seek(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; n == 0; time.Sleep(time.Millisecond) {
		if err := db.QueryRow(query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is found by %s", query)
		}
	}
}

// endOwner ends the connection that holds the part.
func endOwner(t *testing.T, db *sql.DB) {
	t.Helper()
	seek(t, db, `SELECT count(pg_terminate_backend(l.pid, 10000))`+holders)
}

func TestOwnIsTakenAgainAfterALostConnection(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	first, second := openURL(t, place), openURL(t, place)
	o := own(t, first, "part")
	raw := pool(t, place)
	for range 3 {
		endOwner(t, raw)
	}
	seek(t, raw, `SELECT count(*)`+holders)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if next, err := second.Own(ctx, "part"); !errors.Is(err, sqldb.ErrClaimed) {
		if err == nil {
			next.Release()
		}
		t.Fatalf("error %v", err)
	}
	if isLost(o) {
		t.Error("the part counts as lost")
	}
}

func TestOwnIsLostToWhoIsFaster(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	o := own(t, openURL(t, place), "part")
	// Another session stands in line for the lock itself, so it has it first.
	conn, err := pool(t, place).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	got := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(t.Context(), `SELECT pg_advisory_lock(1718382455, hashtext(current_schema() || '/part'))`)
		got <- err
	}()
	raw := pool(t, place)
	seek(t, raw, `SELECT count(*)`+strings.Replace(holders, "AND l.granted", "AND NOT l.granted", 1))
	endOwner(t, raw)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	select {
	case <-o.Lost():
	case <-time.After(20 * time.Second):
		t.Fatal("the loss was not noticed")
	}
}

func TestOwnOfAFileTakesNothing(t *testing.T) {
	t.Parallel()
	db := openAt(t, newPath(t), "sqlite3")
	own(t, db, "part")
	own(t, db, "part")
}
