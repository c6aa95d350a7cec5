package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRH46_KeysAreDurable: the folder is synced after each file has its name in it,
// and a sync that fails is no success.
func TestRH46_KeysAreDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var seen []string
	var fault error
	s := folderSync(func(folder string) error {
		if folder != dir {
			t.Errorf("folder %s, want %s", folder, dir)
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, e.Name()+"="+string(raw))
		}
		return fault
	})
	if err := s.writePrivate(filepath.Join(dir, newKeyName), []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := s.writePrivate(filepath.Join(dir, newKeyName), []byte("two")); err != nil {
		t.Fatal(err)
	}
	if err := s.rename(dir, newKeyName, hostKeyName); err != nil {
		t.Fatal(err)
	}
	if want := []string{newKeyName + "=one", newKeyName + "=two", hostKeyName + "=two"}; !slices.Equal(seen, want) {
		t.Errorf("at the syncs there was %q, want %q", seen, want)
	}
	fault = errors.New("unplugged")
	if err := s.writePrivate(filepath.Join(dir, newKeyName), nil); !errors.Is(err, fault) {
		t.Errorf("written: %v", err)
	}
	if err := s.rename(dir, newKeyName, hostKeyName); !errors.Is(err, fault) {
		t.Errorf("renamed: %v", err)
	}
	if err := syncFolder(dir); err != nil {
		t.Error(err)
	}
	if err := syncFolder(filepath.Join(dir, "gone")); err == nil {
		t.Error("a folder that is not there was synced")
	}
}

// TestRH46_FilesAreWrittenDurably: only files.go gives a file its name. The unit of
// systemd, which can be written again, is the exception.
func TestRH46_FilesAreWrittenDurably(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if file == "files.go" || file == "host_install.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"os.Rename(", "os.WriteFile(", "os.Create(", "renameio."} {
			if strings.Contains(string(raw), call) {
				t.Errorf("%s calls %s…), and not writePrivate or renameDurably", file, call)
			}
		}
	}
}
