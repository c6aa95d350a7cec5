package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	ownerLockName = "runtime-chat.owner.lock"

	// A lock that was just dropped may be seen for a moment; beyond that it is real
	// ownership (RH2).
	ownerLockWait  = 25 * time.Millisecond
	ownerLockRetry = time.Millisecond

	dirMode  = 0o700
	fileMode = 0o600
)

// Owner is the exclusive right to one host folder (RH2), against other processes
// and within this one, from Own to Release.
type Owner struct {
	dir  string
	lock *flock.Flock
}

// Own makes the folder if need be, narrows it to mode 0700, and takes its owner
// lock. Errors: relay_owner_busy if somebody else holds it; relay_store_unavailable
// for every other fault, a lock file that is not a regular file among them.
func Own(ctx context.Context, dir string) (*Owner, error) {
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, ownerLockName)
	if err := refuseIrregular(path); err != nil {
		return nil, err
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(fileMode))
	wait, cancel := context.WithTimeout(ctx, ownerLockWait)
	defer cancel()
	ok, err := lock.TryLockContext(wait, ownerLockRetry)
	switch {
	case ok:
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, wire.NewError(wire.CodeOwnerBusy,
			"Another program uses this host's folder. Stop it, or choose another folder.")
	default:
		return nil, storeFault("take the owner lock", err)
	}
	if err := settleLockFile(path, lock); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return &Owner{dir: dir, lock: lock}, nil
}

// Release gives the folder free. The lock file stays. Releasing twice is allowed.
func (o *Owner) Release() error {
	if err := o.lock.Unlock(); err != nil {
		return storeFault("release the owner lock", err)
	}
	return nil
}

func refuseIrregular(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return storeFault("look at the owner lock", err)
	case !info.Mode().IsRegular():
		return storeFault("use the owner lock", fmt.Errorf("%s is not a regular file", path))
	}
	return nil
}

// settleLockFile looks once more, now that the file is held: what was locked must
// be what stands in the folder, not something a link led to in the meantime.
func settleLockFile(path string, lock *flock.Flock) error {
	held, err := lock.Stat()
	if err != nil {
		return storeFault("look at the owner lock", err)
	}
	found, err := os.Lstat(path)
	if err != nil {
		return storeFault("look at the owner lock", err)
	}
	if !found.Mode().IsRegular() || !os.SameFile(held, found) {
		return storeFault("use the owner lock", fmt.Errorf("%s was replaced", path))
	}
	if err := os.Chmod(path, fileMode); err != nil {
		return storeFault("narrow the owner lock", err)
	}
	return nil
}

// privateDir makes a directory that only its owner may enter, also if it is there
// already with a wider mode.
func privateDir(path string) error {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return storeFault("make a folder", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return storeFault("look at a folder", err)
	}
	if !info.IsDir() {
		return storeFault("use a folder", fmt.Errorf("%s is not a directory", path))
	}
	if info.Mode().Perm() == dirMode {
		return nil
	}
	if err := os.Chmod(path, dirMode); err != nil {
		return storeFault("narrow a folder", err)
	}
	return nil
}

// storeFault is an I/O fault of the host's folder. The message goes to people, the
// path stays in the cause.
func storeFault(what string, cause error) error {
	return wire.WrapError(wire.CodeStoreUnavailable, "The host could not "+what+" in its folder.", cause)
}
