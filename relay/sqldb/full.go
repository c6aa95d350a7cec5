package sqldb

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// ErrFull marks what failed because the disk has no room, or a quota is used up.
var ErrFull = errors.New("sqldb: the disk is full")

// full marks an error of a full disk; any other stays as it is.
func full(err error) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	if extendedCode(err)&0xff == codeFull || SQLState(err) == stateDiskFull || noRoom(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// roomVFS is the driver's way to files, with writes that tell a full disk from a
// broken one. The driver's own loses the difference, and after a broken one nobody
// knows whether a commit was kept: the program would have to end.
type roomVFS struct{ vfs.VFSFilename }

const roomVFSName = "fairlead"

// registerVFS makes the VFS known to the driver; again does nothing more.
func registerVFS() error {
	files, ok := vfs.Find("").(vfs.VFSFilename)
	if !ok {
		return errors.New("the SQLite driver has no files")
	}
	vfs.Register(roomVFSName, roomVFS{files})
	return nil
}

// OpenFilename implements vfs.VFSFilename.
func (v roomVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return roomFile{file}, flags, nil
}

// roomFile passes all on that the driver asks of its own files.
type roomFile struct{ vfs.File }

var (
	_ vfs.FileLockState          = roomFile{}
	_ vfs.FilePersistWAL         = roomFile{}
	_ vfs.FilePowersafeOverwrite = roomFile{}
	_ vfs.FileSizeHint           = roomFile{}
	_ vfs.FileHasMoved           = roomFile{}
	_ vfs.FileBatchAtomicWrite   = roomFile{}
	_ vfs.FileSharedMemory       = roomFile{}
	_ vfs.FileMemoryMapper       = roomFile{}
)

// WriteAt is where a full disk shows.
func (f roomFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if noRoom(err) {
		return n, sqlite3.FULL
	}
	return n, err
}

// SizeHint makes room ahead.
func (f roomFile) SizeHint(size int64) error {
	err := vfsutil.WrapSizeHint(f.File, size)
	if noRoom(err) {
		return sqlite3.FULL
	}
	return err
}

// The rest is passed on as it is.

func (f roomFile) LockState() vfs.LockLevel { return vfsutil.WrapLockState(f.File) }
func (f roomFile) PersistWAL() bool         { return vfsutil.WrapPersistWAL(f.File) }
func (f roomFile) SetPersistWAL(keep bool)  { vfsutil.WrapSetPersistWAL(f.File, keep) }
func (f roomFile) PowersafeOverwrite() bool { return vfsutil.WrapPowersafeOverwrite(f.File) }

func (f roomFile) SetPowersafeOverwrite(safe bool) { vfsutil.WrapSetPowersafeOverwrite(f.File, safe) }
func (f roomFile) HasMoved() (bool, error)         { return vfsutil.WrapHasMoved(f.File) }
func (f roomFile) BeginAtomicWrite() error         { return vfsutil.WrapBeginAtomicWrite(f.File) }
func (f roomFile) CommitAtomicWrite() error        { return vfsutil.WrapCommitAtomicWrite(f.File) }
func (f roomFile) RollbackAtomicWrite() error      { return vfsutil.WrapRollbackAtomicWrite(f.File) }
func (f roomFile) SharedMemory() vfs.SharedMemory  { return vfsutil.WrapSharedMemory(f.File) }
func (f roomFile) MemoryMapper() vfs.MemoryMapper  { return vfsutil.WrapMemoryMapper(f.File) }
