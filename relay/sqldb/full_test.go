package sqldb_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/fairlead/fairlead/relay/sqldb"
)

// disk is the file system, until it has no room.
type disk struct {
	vfs.VFSFilename
	fault atomic.Pointer[error] // of every write
}

func (d *disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := d.VFSFilename.OpenFilename(name, flags)
	return diskFile{f, d}, flags, err
}

type diskFile struct {
	vfs.File
	d *disk
}

func (f diskFile) SharedMemory() vfs.SharedMemory { return vfsutil.WrapSharedMemory(f.File) }
func (f diskFile) SizeHint(size int64) error      { return vfsutil.WrapSizeHint(f.File, size) }
func (f diskFile) PowersafeOverwrite() bool       { return vfsutil.WrapPowersafeOverwrite(f.File) }
func (f diskFile) SetPowersafeOverwrite(b bool)   { vfsutil.WrapSetPowersafeOverwrite(f.File, b) }

func (f diskFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.d.fault.Load(); err != nil {
		return 0, *err
	}
	return f.File.WriteAt(p, off)
}

// onDisk is the SQLite driver, with the files of a disk below those of the package.
type onDisk struct {
	faulty
	name string
}

func (o *onDisk) Open(dsn string) (driver.Conn, error) {
	return o.real.Open(strings.Replace(dsn, "vfs=fairlead", "vfs="+o.name, 1))
}

// TestAFullDiskBreaksNothing: what is to be written fails and says why, what is stored
// is read, and with room again all goes on. Whatever else a write fails with leaves the
// outcome open.
func TestAFullDiskBreaksNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cause error
		full  bool
	}{
		"no room": {syscall.ENOSPC, true}, "no quota": {syscall.EDQUOT, true}, "a broken disk": {syscall.EIO, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &disk{VFSFilename: vfs.Find("").(vfs.VFSFilename)}
			o := &onDisk{name: strings.ReplaceAll(t.Name(), "/", "-")}
			o.register(t)
			driver := o.name + fmt.Sprintf("-%p", o) // a name is taken for ever
			sql.Register(driver, o)
			vfs.Register(o.name, sqldb.RoomVFS(d))
			t.Cleanup(func() { vfs.Unregister(o.name) })
			path := newPath(t)
			db := openAt(t, path, driver)
			if err := insert(t.Context(), db, 1, 1); err != nil {
				t.Fatal(err)
			}
			var fault error = &fs.PathError{Op: "write", Path: path, Err: tt.cause}
			d.fault.Store(&fault)
			err := insert(t.Context(), db, 1, 2)
			if err == nil || errors.Is(err, sqldb.ErrFull) != tt.full || errors.Is(err, sqldb.ErrIndeterminate) == tt.full {
				t.Errorf("written to it: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "the disk is full") != tt.full {
				t.Errorf("it reads %q", err)
			}
			if n := count(t, db); n != 1 {
				t.Errorf("%d rows are read", n)
			}
			d.fault.Store(nil)
			if err := insert(t.Context(), db, 1, 3); (err == nil) != tt.full {
				t.Errorf("with room again: %v", err)
			}
			select {
			case <-db.Broken():
				if tt.full {
					t.Error("the database says that it is broken")
				}
			default:
				if !tt.full {
					t.Error("the database does not say that it is broken")
				}
			}
			if err := db.Close(); err != nil && tt.full {
				t.Error(err)
			}
			want := 1
			if tt.full {
				want = 2
			}
			if n := count(t, openAt(t, path, "sqlite3")); n != want {
				t.Errorf("%d rows after reopening, want %d", n, want)
			}
		})
	}
}

// TestAFullDatabaseSaysSo has SQLite itself refuse pages, in both drivers.
func TestAFullDatabaseSaysSo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlite3", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openAt(t, newPath(t), name)
			pages := func(pragma string) {
				if err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
					var n int
					return tx.QueryRow(t.Context(), pragma).Scan(&n)
				}); err != nil {
					t.Fatal(err)
				}
			}
			pages("PRAGMA max_page_count = 1") // it stays at what there is
			var err error
			for n := 0; err == nil && n < 10_000; n++ {
				err = db.Update(t.Context(), func(tx *sqldb.Tx) error {
					_, err := tx.Exec(t.Context(), "INSERT INTO rows (producer, n, body) VALUES (1, ?, ?)", n, strings.Repeat("x", 1000))
					return err
				})
			}
			if !errors.Is(err, sqldb.ErrFull) || errors.Is(err, sqldb.ErrIndeterminate) {
				t.Errorf("written to it: %v", err)
			}
			before := count(t, db)
			pages("PRAGMA max_page_count = 100000")
			if err := insert(t.Context(), db, 2, 1); err != nil {
				t.Errorf("with room again: %v", err)
			}
			if n := count(t, db); n != before+1 {
				t.Errorf("%d rows, want %d", n, before+1)
			}
		})
	}
}
