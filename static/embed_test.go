package static_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairlead/fairlead/static"
)

func TestVersion_NamesTheContent(t *testing.T) {
	t.Parallel()
	files := func(edit func(fstest.MapFS)) string {
		t.Helper()
		fsys := fstest.MapFS{"a/x.js": {Data: []byte("one")}, "b.css": {Data: []byte("two")}}
		edit(fsys)
		version, err := static.Version(fsys)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	same := files(func(fstest.MapFS) {})
	if again := files(func(fstest.MapFS) {}); again != same || len(same) != 12 {
		t.Errorf("the same files gave %q and %q", same, again)
	}
	changes := map[string]func(fstest.MapFS){
		"content": func(f fstest.MapFS) { f["b.css"] = &fstest.MapFile{Data: []byte("three")} },
		"name":    func(f fstest.MapFS) { f["c.css"] = f["b.css"]; delete(f, "b.css") },
		"absence": func(f fstest.MapFS) { delete(f, "b.css") },
	}
	for name, edit := range changes {
		if files(edit) == same {
			t.Errorf("a change of %s kept the version", name)
		}
	}
}

var references = regexp.MustCompile(`(?m)(?:^import .*? from |^import |^export .*? from |import\()'(\.[^']+)'|url\("([^"]+)"\)`)

// TestFS_IsWhole: whatever a module imports or a style sheet names is embedded,
// and nothing is fetched from elsewhere.
func TestFS_IsWhole(t *testing.T) {
	t.Parallel()
	seen := 0
	err := fs.WalkDir(static.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || (path.Ext(name) != ".js" && path.Ext(name) != ".css") {
			return err
		}
		text, err := fs.ReadFile(static.FS, name)
		if err != nil {
			return err
		}
		for _, found := range references.FindAllStringSubmatch(string(text), -1) {
			seen++
			target := path.Join(path.Dir(name), found[1]+found[2])
			if _, err := fs.Stat(static.FS, target); err != nil {
				t.Errorf("%s names %s, which is not embedded", name, found[1]+found[2])
			}
		}
		if strings.Contains(string(text), "@import") && strings.Contains(string(text), "//fonts.") {
			t.Errorf("%s fetches from elsewhere", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 40 {
		t.Errorf("only %d references were found", seen)
	}
}

// TestFS_CarriesTheLicences of what is vendored.
func TestFS_CarriesTheLicences(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"vendor/ibm-plex-sans.LICENSE.txt": "SIL Open Font License",
		"vendor/ibm-plex-mono.LICENSE.txt": "SIL Open Font License",
		"vendor/idiomorph.LICENSE.txt":     "Permission to use",
	} {
		text, err := fs.ReadFile(static.FS, name)
		if err != nil || !strings.Contains(strings.ToLower(string(text)), strings.ToLower(says)) {
			t.Errorf("%s does not hold %q (%v)", name, says, err)
		}
	}
}
