package sqldb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fairlead/fairlead/relay/sqldb"
)

func TestOpenMakesPrivateFiles(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, driver string) {
		path := newPath(t)
		if err := os.WriteFile(path, nil, 0o644); err != nil { //nolint:gosec // wide on purpose
			t.Fatal(err)
		}
		db := openAt(t, path, driver)
		if err := insert(t.Context(), db, 1, 1); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(path + "*")
		if err != nil || len(files) < 2 {
			t.Fatalf("files %v, %v: want the database and its log", files, err)
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, want 0600", filepath.Base(f), info.Mode().Perm())
			}
		}
	})
}

func TestOpenTakesAnyPath(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, driver string) {
		path := filepath.Join(t.TempDir(), "a b?c#d%20e&_pragma=x.db")
		db := openAt(t, path, driver)
		if err := insert(t.Context(), db, 1, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) > 3 {
			t.Errorf("stray files: %v", entries)
		}
	})
}

func TestOpenRefusesWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, driver string) {
		path := newPath(t)
		content := strings.Repeat("this is not a database ", 400)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := sqldb.Open(t.Context(), sqldb.Options{Path: path, Driver: driver})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Fatalf("err = %v, want one that names the file", err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Error("the file was changed")
		}
	})
}

func TestMigrateRefusesNewerSchema(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		newer := schema()
		newer["0002_more.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE more (id INTEGER);\n")}
		db := openAt(t, newPlace(t, driver), driver)
		if err := db.Migrate(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
		if err := db.Migrate(t.Context(), newer); err != nil {
			t.Fatalf("second run: %v", err)
		}
		err := db.Migrate(t.Context(), schema())
		if !errors.Is(err, sqldb.ErrSchemaNewer) || !strings.Contains(err.Error(), db.Path()) {
			t.Fatalf("err = %v, want ErrSchemaNewer naming the file", err)
		}
	})
}

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		db := openAt(t, newPlace(t, driver), driver)
		ctx := t.Context()
		if err := insert(ctx, db, 1, 1); err != nil {
			t.Fatal(err)
		}
		if err := insert(ctx, db, 1, 1); !sqldb.IsUnique(err) {
			t.Errorf("duplicate key: %v is not IsUnique", err)
		}
		err := db.Update(ctx, func(tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO rows (producer, n) VALUES (2, NULL)")
			return err
		})
		if err == nil || sqldb.IsUnique(err) {
			t.Errorf("NOT NULL: %v is IsUnique", err)
		}
		// The reference is checked at commit, so the commit itself is refused.
		err = db.Update(ctx, func(tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO rows (producer, n, parent) VALUES (3, 1, 7)")
			return err
		})
		if err == nil || errors.Is(err, sqldb.ErrIndeterminate) {
			t.Errorf("refused commit: %v, want an error with a known outcome", err)
		}
		if err := insert(ctx, db, 4, 1); err != nil {
			t.Errorf("after a refused commit: %v", err)
		}
		if n := count(t, db); n != 2 {
			t.Errorf("%d rows, want 2", n)
		}
		err = db.Update(ctx, func(tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO rows (producer, n) VALUES (5, ?)", time.Now())
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "integer milliseconds") {
			t.Errorf("a time was taken as an argument: %v", err)
		}
	})
}

func TestViewIsOneReadOnlySnapshot(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		db := openAt(t, newPlace(t, driver), driver)
		ctx := t.Context()
		err := db.View(ctx, func(tx *sqldb.Tx) error {
			var before, after int
			if err := tx.QueryRow(ctx, "SELECT count(*) FROM rows").Scan(&before); err != nil {
				return err
			}
			if err := insert(ctx, db, 1, 1); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, "SELECT count(*) FROM rows").Scan(&after); err != nil {
				return err
			}
			if before != 0 || after != 0 {
				t.Errorf("counts %d and %d in one snapshot, want 0 and 0", before, after)
			}
			if _, err := tx.Exec(ctx, "DELETE FROM rows"); err == nil {
				t.Error("a view could write")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, db); n != 1 {
			t.Errorf("%d rows after the view, want 1", n)
		}
	})
}

func TestViewWaitsForAReaderUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open(t.Context(), sqldb.Options{Path: newPath(t), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = db.View(t.Context(), func(*sqldb.Tx) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := db.View(ctx, func(*sqldb.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("second view: %v, want context.Canceled", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, driver string) {
		db := openAt(t, newPlace(t, driver), driver)
		for range 2 {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := insert(t.Context(), db, 1, 1); !errors.Is(err, sqldb.ErrClosed) {
			t.Errorf("Update: %v, want ErrClosed", err)
		}
		err := db.View(t.Context(), func(*sqldb.Tx) error { return nil })
		if !errors.Is(err, sqldb.ErrClosed) {
			t.Errorf("View: %v, want ErrClosed", err)
		}
	})
}
