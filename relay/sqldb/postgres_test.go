package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"

	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

// pool gives connections past the package.
func pool(t *testing.T, place string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// account makes a row that updates count up.
func account(t *testing.T, db *sqldb.DB, n int) {
	t.Helper()
	if err := insert(t.Context(), db, 0, n); err != nil {
		t.Fatal(err)
	}
}

func lockRow(ctx context.Context, tx *sqldb.Tx, n int) error {
	var got int
	return tx.QueryRow(ctx, "SELECT n FROM rows WHERE producer = 0 AND n = ? FOR NO KEY UPDATE", n).Scan(&got)
}

func setBody(ctx context.Context, tx *sqldb.Tx, n int, body string) error {
	_, err := tx.Exec(ctx, "UPDATE rows SET body = ? WHERE producer = 0 AND n = ?", body, n)
	return err
}

func body(t *testing.T, db *sqldb.DB, n int) (s string) {
	t.Helper()
	err := db.View(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT body FROM rows WHERE producer = 0 AND n = ?", n).Scan(&s)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestF36_DeadlockIsNotSeen(t *testing.T) {
	t.Parallel()
	db := openAt(t, pgtest.URL(t), postgres)
	account(t, db, 1)
	account(t, db, 2)
	var runs atomic.Int32
	var met sync.WaitGroup
	met.Add(2)
	lockBoth := func(first, second int, swallow bool) error {
		once := true
		return db.Update(t.Context(), func(tx *sqldb.Tx) error {
			runs.Add(1)
			if err := lockRow(t.Context(), tx, first); err != nil {
				return err
			}
			if once {
				once = false
				met.Done()
				met.Wait()
			}
			err := lockRow(t.Context(), tx, second)
			if swallow { // a function may answer with an error of its own, or none
				err = nil
			}
			return errors.Join(err, setBody(t.Context(), tx, first, fmt.Sprint(first)))
		})
	}
	errs := make(chan error, 2)
	go func() { errs <- lockBoth(1, 2, true) }()
	go func() { errs <- lockBoth(2, 1, true) }()
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if runs.Load() != 3 {
		t.Errorf("%d runs, want 3: one of the two again", runs.Load())
	}
	if body(t, db, 1) != "1" || body(t, db, 2) != "2" {
		t.Error("an update is missing")
	}
}

func TestSequenceIsTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		db := openAt(t, newPlace(t, driver), driver)
		account(t, db, 0)
		account(t, db, 1)
		refused := errors.New("refused")
		const writers, each = 8, 25
		var mu sync.Mutex
		var seen [2][]int
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
						// Some take both locks, in their order.
						for row := (w + i) % 2; row < 2; row++ {
							var count int
							if err := tx.QueryRow(t.Context(), `UPDATE rows SET body = CAST(CAST('0' || body AS INTEGER) + 1 AS TEXT)
								WHERE producer = 0 AND n = ? RETURNING CAST(body AS INTEGER)`, row).Scan(&count); err != nil {
								return err
							}
							tx.Sequence(fmt.Sprint(row))
							tx.OnCommit(func() {
								mu.Lock()
								defer mu.Unlock()
								seen[row] = append(seen[row], count)
							})
						}
						if (w*each+i)%5 == 0 {
							return refused
						}
						return nil
					})
					if err != nil && !errors.Is(err, refused) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for row, counts := range seen {
			if !slices.IsSorted(counts) || len(slices.Compact(counts)) != len(counts) || len(counts) == 0 {
				t.Errorf("row %d: functions after commit ran in the order %v", row, counts)
			}
		}
	})
}

func TestLostCommit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cut  int
		runs int
	}{
		{name: "the server kept nothing", cut: cutBefore, runs: 2},
		{name: "the server kept it", cut: cutAfter, runs: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, place := newProxy(t, pgtest.URL(t))
			db := openAt(t, place, postgres)
			account(t, db, 1)
			p.next(tt.cut, false)
			runs, hooks := 0, 0
			err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
				runs++
				tx.OnCommit(func() { hooks++ })
				return setBody(t.Context(), tx, 1, "kept")
			})
			if err != nil || runs != tt.runs || hooks != 1 {
				t.Errorf("error %v after %d runs, want none after %d; %d hooks", err, runs, tt.runs, hooks)
			}
			if got := body(t, db, 1); got != "kept" {
				t.Errorf("stored %q", got)
			}
		})
	}
}

func TestCommitThatNobodyTellsOf(t *testing.T) {
	t.Parallel()
	p, place := newProxy(t, pgtest.URL(t))
	db := openAt(t, place, postgres)
	account(t, db, 1)
	sqldb.SetPatience(db, 100*time.Millisecond)
	p.next(cutAfter, true)
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		tx.OnCommit(func() { t.Error("a function after commit ran") })
		tx.Sequence("key")
		return setBody(t.Context(), tx, 1, "perhaps")
	})
	if !errors.Is(err, sqldb.ErrIndeterminate) {
		t.Fatalf("error %v, want ErrIndeterminate", err)
	}
	select {
	case <-db.Broken():
		t.Error("the database is broken for good")
	default:
	}
	p.next(cutNothing, false)
	ran := false
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		tx.Sequence("key") // nobody stands there for ever
		tx.OnCommit(func() { ran = true })
		return nil
	})
	if err != nil || !ran {
		t.Errorf("a later update: %v, its function ran: %v", err, ran)
	}
}

func TestConnectionLostBeforeTheCommitIsNotSeen(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	db := openAt(t, place, postgres)
	account(t, db, 1)
	raw := pool(t, place)
	runs := 0
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		runs++
		var pid int
		if err := tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		if runs == 1 {
			if _, err := raw.ExecContext(t.Context(), "SELECT pg_terminate_backend($1, 5000)", pid); err != nil {
				t.Fatal(err)
			}
		}
		return setBody(t.Context(), tx, 1, "done")
	})
	if err != nil || runs != 2 || body(t, db, 1) != "done" {
		t.Errorf("error %v after %d runs", err, runs)
	}
}

func TestFunctionThatDoesNotReturnLeavesNothing(t *testing.T) {
	t.Parallel()
	db := openAt(t, pgtest.URL(t), postgres, oneWriter)
	account(t, db, 1)
	for _, end := range []func(){runtime.Goexit, func() { panic("surprise") }} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			err := db.Update(context.Background(), func(tx *sqldb.Tx) error {
				tx.Sequence("key")
				if err := setBody(context.Background(), tx, 1, "half"); err != nil {
					t.Error(err)
				}
				end()
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), "surprise") {
				t.Errorf("error %v", err)
			}
		}()
		<-done
	}
	// The only connection, the row and the place in the line are free.
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		tx.Sequence("key")
		return setBody(t.Context(), tx, 1, "whole")
	})
	if err != nil || body(t, db, 1) != "whole" {
		t.Errorf("afterwards: %v", err)
	}
}

func TestFunctionThatGoesOnAfterAFailedStatementIsUndone(t *testing.T) {
	t.Parallel()
	db := openAt(t, pgtest.URL(t), postgres, oneWriter)
	account(t, db, 1)
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO rows (producer, n) VALUES (0, 1)")
		if !sqldb.IsUnique(err) {
			t.Errorf("error %v, want IsUnique", err)
		}
		tx.OnCommit(func() { t.Error("a function after commit ran") })
		return nil
	})
	if !sqldb.IsUnique(err) {
		t.Errorf("error %v, want the statement's", err)
	}
	// Rows that are left open do not keep the only connection either.
	err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
		rows, err := tx.Query(t.Context(), "SELECT n FROM rows")
		if err == nil && !rows.Next() {
			t.Error("no row")
		}
		return errors.Join(err, errors.New("refused"))
	})
	if err == nil || err.Error() != "refused" {
		t.Errorf("error %v", err)
	}
	if err := insert(t.Context(), db, 0, 2); err != nil {
		t.Error(err)
	}
}

func TestSessionKeepsItsPromises(t *testing.T) {
	t.Parallel()
	db := openAt(t, pgtest.URL(t)+"&synchronous_commit=off", postgres)
	settings := map[string]string{
		"synchronous_commit": "on", "idle_in_transaction_session_timeout": "10s", "lock_timeout": "20s",
		"statement_timeout": "30s", "transaction_isolation": "read committed",
	}
	err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		for name, want := range settings {
			var got string
			if err := tx.QueryRow(t.Context(), "SELECT current_setting(?)", name).Scan(&got); err != nil {
				return err
			}
			if got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMigrateTakesTurns(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			db, err := sqldb.Open(t.Context(), sqldb.Options{URL: place})
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(db.Migrate(t.Context(), schema()), db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestMigrateRefusesTheTablesOfOthers(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		place := newPlace(t, driver)
		o := sqldb.Options{Path: place, Driver: driver}
		raw, err := sql.Open(driver, "file:"+place)
		if driver == postgres {
			o = sqldb.Options{URL: place}
			raw, err = sql.Open("pgx", place)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = raw.Close() }()
		if _, err := raw.ExecContext(t.Context(), "CREATE TABLE theirs (n INTEGER)"); err != nil {
			t.Fatal(err)
		}
		db, err := sqldb.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := db.Migrate(t.Context(), schema()); !errors.Is(err, sqldb.ErrForeign) {
			t.Fatalf("error %v, want ErrForeign", err)
		}
		var n int
		if err := raw.QueryRowContext(t.Context(), "SELECT count(*) FROM goose_db_version").Scan(&n); err == nil {
			t.Error("a table was made")
		}
	})
}

func TestOpenRefusesAServerWithoutAPassword(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url string
		want      error
	}{
		{"nobody listens", "postgres://ann:s3cret-@127.0.0.1:1/db?connect_timeout=1", sqldb.ErrUnreachable},
		{"a password that is not written as %XX", "postgres://ann:s3cret-#/x@127.0.0.1:1/db", sqldb.ErrBadURL},
		{"a password with a percent sign", "postgres://ann:%zzs3cret-@127.0.0.1:1/db", sqldb.ErrBadURL},
		{"a password as a parameter", "postgres://127.0.0.1:1/db?password=s3cret-&sslmode=odd", sqldb.ErrBadURL},
		{"a password and an odd parameter", "postgres://ann:s3cret-@127.0.0.1:1/db?sslmode=odd", sqldb.ErrBadURL},
		{"a file instead of a URL", "host=/tmp password=s3cret-", sqldb.ErrBadURL},
		{"another database", "mysql://ann:s3cret-@127.0.0.1:1/db", sqldb.ErrBadURL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := sqldb.Open(t.Context(), sqldb.Options{URL: tt.url})
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if shown := fmt.Sprintf("%v %+v %s", err, err, sqldb.RedactURL(tt.url)); strings.Contains(shown, "s3cret") {
				t.Errorf("the password is shown: %s", shown)
			}
		})
	}
}

func TestOpenTellsWhatTheServerSays(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	for _, tt := range []struct{ name, url, state string }{
		{"no such database", strings.Replace(place, "/postgres?", "/missing?", 1), "3D000"},
		{"no such user", strings.Replace(place, "user=postgres", "user=nobody", 1), "28000"},
	} {
		_, err := sqldb.Open(t.Context(), sqldb.Options{URL: tt.url})
		if sqldb.SQLState(err) != tt.state || errors.Is(err, sqldb.ErrUnreachable) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	_, err := sqldb.Open(t.Context(), sqldb.Options{URL: place + "&search_path=missing"})
	if !errors.Is(err, sqldb.ErrUnsuitable) {
		t.Errorf("no such schema: %v", err)
	}
}

func TestTextsOfAnyBytes(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		db := openAt(t, newPlace(t, driver), driver)
		account(t, db, 1)
		type named string
		for _, text := range []string{"", "plain ?", "a\x00b", "\x00", "\xff\xfe", "\uFDD0", "\uFDD000", "日本\uFDD0\x00\uFDD0\uFDD0"} {
			var read struct {
				text  string
				named named
				null  sql.NullString
			}
			err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
				if err := setBody(t.Context(), tx, 1, text); err != nil {
					return err
				}
				return tx.QueryRow(t.Context(), "SELECT body, body, body FROM rows WHERE body = ?", named(text)).
					Scan(&read.text, &read.named, &read.null)
			})
			if err != nil || read.text != text || string(read.named) != text || read.null.String != text {
				t.Errorf("%q was read as %+v: %v", text, read, err)
			}
		}
	})
}
