package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// folderSync makes the names in a folder durable. Whoever writes a file that must be
// there after a power loss is given one.
type folderSync func(dir string) error

// writePrivate replaces a file by one that its owner alone can read, whatever
// permissions it had. Once it has returned the file is there after a power loss too;
// until then the old one may be, and never a part of either.
func (s folderSync) writePrivate(path string, content []byte) error {
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o600))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return s(filepath.Dir(path))
}

// rename gives a file another name in its folder, with the promise of writePrivate.
func (s folderSync) rename(dir, from, to string) error {
	if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
		return err
	}
	return s(dir)
}

// syncFolder is the folderSync of real folders. A file system that cannot do it
// promises nothing to anybody.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// writePrivate and renameDurably are for real folders.
func writePrivate(path string, content []byte) error {
	return folderSync(syncFolder).writePrivate(path, content)
}

func renameDurably(dir, from, to string) error { return folderSync(syncFolder).rename(dir, from, to) }
