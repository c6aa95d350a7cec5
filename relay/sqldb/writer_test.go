package sqldb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay/sqldb"
)

// hold occupies the writer until release is called, so that what is queued
// meanwhile becomes one group.
func hold(t *testing.T, db *sqldb.DB) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.Update(context.Background(), func(*sqldb.Tx) error {
			close(held)
			<-free
			return nil
		})
	}()
	<-held
	return func() {
		close(free)
		if err := <-done; err != nil {
			t.Errorf("holding update: %v", err)
		}
	}
}

// group runs fns as one group, in order, and gives their errors.
func group(t *testing.T, db *sqldb.DB, fns ...func(*sqldb.Tx) error) []error {
	t.Helper()
	release := hold(t, db)
	errs := make([]error, len(fns))
	var wg sync.WaitGroup
	for i, fn := range fns {
		before := db.Waiting()
		wg.Go(func() { errs[i] = db.Update(context.Background(), fn) })
		for db.Waiting() == before {
			runtime.Gosched()
		}
	}
	release()
	wg.Wait()
	return errs
}

func TestSavepointIsolation(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, driver string) {
		db := openAt(t, newPath(t), driver)
		ctx := t.Context()
		put := func(producer int, then func() error) func(*sqldb.Tx) error {
			return func(tx *sqldb.Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO rows (producer, n) VALUES (?, 1)", producer); err != nil {
					return err
				}
				return then()
			}
		}
		ok := func() error { return nil }
		boom := errors.New("boom")
		errs := group(t, db,
			put(1, ok),
			put(2, func() error { return boom }),
			put(3, func() error { panic("surprise") }),
			put(1, ok), // breaks the key
			put(4, ok),
		)
		if errs[0] != nil || errs[4] != nil {
			t.Errorf("good updates: %v, %v", errs[0], errs[4])
		}
		if !errors.Is(errs[1], boom) || !sqldb.IsUnique(errs[3]) {
			t.Errorf("errors %v, %v are not those of the updates", errs[1], errs[3])
		}
		if errs[2] == nil || !strings.Contains(errs[2].Error(), "surprise") {
			t.Errorf("panic: %v", errs[2])
		}
		if n := count(t, db); n != 2 {
			t.Errorf("%d rows, want 2", n)
		}
		// Alone in its transaction a failing update has no savepoint.
		if err := db.Update(ctx, put(9, func() error { return boom })); !errors.Is(err, boom) {
			t.Errorf("alone: %v", err)
		}
		if n := count(t, db); n != 2 {
			t.Errorf("%d rows after a lone failure, want 2", n)
		}
	})
}

func TestOnCommitRunsInOrderOnceDurable(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, driver string) {
		db := openAt(t, newPath(t), driver)
		ctx := t.Context()
		var order []int // written by the writer, read after the group
		hooked := func(i int, err error) func(*sqldb.Tx) error {
			return func(tx *sqldb.Tx) error {
				tx.OnCommit(func() { order = append(order, i) })
				if _, ierr := tx.Exec(ctx, "INSERT INTO rows (producer, n) VALUES (?, 1)", i); ierr != nil {
					return ierr
				}
				tx.OnCommit(func() {
					if n := count(t, db); n != 3 {
						t.Errorf("hook of %d sees %d rows, want the whole group", i, n)
					}
					if i == 2 {
						panic("a hook must not hurt the writer")
					}
				})
				return err
			}
		}
		errs := group(t, db, hooked(1, nil), hooked(2, nil), hooked(3, errors.New("no")), hooked(4, nil))
		if errs[0] != nil || errs[1] != nil || errs[2] == nil || errs[3] != nil {
			t.Errorf("errors %v", errs)
		}
		if got := fmt.Sprint(order); got != "[1 2 4]" {
			t.Errorf("hooks ran as %s, want [1 2 4]", got)
		}
	})
}

func TestUpdateHonoursItsContextOnlyWhileQueued(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		db := openAt(t, newPlace(t, driver), driver, oneWriter)
		release := hold(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		queued := make(chan error, 1)
		go func() { queued <- insert(ctx, db, 1, 1) }()
		for db.Waiting() == 0 {
			runtime.Gosched()
		}
		cancel()
		if err := <-queued; !errors.Is(err, context.Canceled) {
			t.Errorf("queued update: %v, want context.Canceled", err)
		}
		release()

		// Cancelled while it runs: it ends as it really ended.
		ctx, cancel = context.WithCancel(t.Context())
		err := db.Update(ctx, func(tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO rows (producer, n) VALUES (2, 1)")
			cancel()
			return err
		})
		if err != nil {
			t.Errorf("running update: %v, want its true outcome", err)
		}
		if n := count(t, db); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		path := newPlace(t, driver)
		db := openAt(t, path, driver, oneWriter)
		release := hold(t, db)
		const updates = 20
		errs := make(chan error, updates)
		for i := range updates {
			go func() { errs <- insert(context.Background(), db, i, 1) }()
		}
		for db.Waiting() < updates {
			runtime.Gosched()
		}
		closed := make(chan error, 1)
		go func() { closed <- db.Close() }()
		release()
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		for range updates {
			if err := <-errs; err != nil {
				t.Errorf("queued update: %v", err)
			}
		}
		if n := count(t, openAt(t, path, driver)); n != updates {
			t.Errorf("%d rows, want %d", n, updates)
		}
	})
}

func TestUpdateThatEndsTheWriterBreaksTheDatabase(t *testing.T) {
	t.Parallel()
	db := openAt(t, newPath(t), "sqlite3")
	err := db.Update(t.Context(), func(*sqldb.Tx) error { runtime.Goexit(); return nil })
	if !errors.Is(err, sqldb.ErrIndeterminate) {
		t.Errorf("the update: %v, want ErrIndeterminate", err)
	}
	if err := insert(t.Context(), db, 1, 1); !errors.Is(err, sqldb.ErrIndeterminate) {
		t.Errorf("a later one: %v, want ErrIndeterminate", err)
	}
}

// TestGroupCommit checks, for any mix of producers, that what was acknowledged is
// stored, in the order of each producer, and that what was refused is not.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		db := openAt(t, newPlace(t, driver), driver)
		base := 0
		rapid.Check(t, func(rt *rapid.T) {
			producers := rapid.IntRange(1, 12).Draw(rt, "producers")
			each := rapid.IntRange(1, 8).Draw(rt, "each")
			failEvery := rapid.IntRange(2, 5).Draw(rt, "failEvery")
			base += 100
			refused := errors.New("refused")
			var wg sync.WaitGroup
			for p := range producers {
				wg.Go(func() {
					for n := range each {
						err := db.Update(context.Background(), func(tx *sqldb.Tx) error {
							_, err := tx.Exec(context.Background(),
								"INSERT INTO rows (producer, n) VALUES (?, ?)", base+p, n)
							if err == nil && (p+n)%failEvery == 0 {
								err = refused
							}
							return err
						})
						if want := (p+n)%failEvery == 0; errors.Is(err, refused) != want || (err != nil && !want) {
							rt.Errorf("producer %d, update %d: %v", p, n, err)
						}
					}
				})
			}
			wg.Wait()
			for p := range producers {
				if got, want := stored(t, db, base+p), expected(p, each, failEvery); got != want {
					rt.Errorf("producer %d: stored %s, want %s", p, got, want)
				}
			}
		})
	})
}

func expected(p, each, failEvery int) string {
	var b strings.Builder
	for n := range each {
		if (p+n)%failEvery != 0 {
			fmt.Fprintf(&b, "%d ", n)
		}
	}
	return b.String()
}

// stored lists what is stored of a producer in the order in which it was.
func stored(t *testing.T, db *sqldb.DB, producer int) string {
	t.Helper()
	var b strings.Builder
	order := "rowid"
	if db.Dialect() == sqldb.Postgres { // rows have no order there
		order = "n"
	}
	err := db.View(context.Background(), func(tx *sqldb.Tx) error {
		rows, err := tx.Query(context.Background(),
			"SELECT n FROM rows WHERE producer = ? ORDER BY "+order, producer)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			fmt.Fprintf(&b, "%d ", n)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const crashEnv = "SQLDB_TEST_CRASH_PATH"

// crashChild appends with many producers and prints each row once it is
// acknowledged, until it is killed.
func crashChild(path string) error {
	db, err := sqldb.Open(context.Background(), sqldb.Options{Path: path})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(context.Background(), schema()); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for p := range 16 {
		wg.Go(func() {
			for n := range 100_000 {
				if err := insert(context.Background(), db, p, n); err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("ack", p, n)
			}
		})
	}
	wg.Wait()
	return nil
}

func TestAcknowledgedUpdatesSurviveAKill(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := map[int]int{}
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		var p, n int
		if _, err := fmt.Sscanf(lines.Text(), "ack %d %d", &p, &n); err != nil {
			t.Fatalf("child: %q", lines.Text())
		}
		last[p] = n
		if seen == 500 {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if len(last) == 0 {
		t.Fatal("nothing was acknowledged")
	}
	db := openAt(t, path, "sqlite3")
	for p, n := range last {
		rows := strings.Fields(stored(t, db, p))
		if len(rows) < n+1 {
			t.Errorf("producer %d: %d rows, but %d were acknowledged", p, len(rows), n+1)
		}
		for i, r := range rows {
			if r != fmt.Sprint(i) {
				t.Fatalf("producer %d: row %d is %s", p, i, r)
			}
		}
	}
}
