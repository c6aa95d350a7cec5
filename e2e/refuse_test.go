package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRH3_AStrangeDatabaseIsRefusedUntouched starts the program over files that
// are not its own: it ends, says what to do next, and leaves them as they are.
func TestRH3_AStrangeDatabaseIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	const letter = "Dear aunt, this is a letter and not a database."
	for _, name := range []string{"gateway.db", "host/host.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "host"), 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(letter), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), binary, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0").CombinedOutput()
			if err == nil || strings.Contains(string(out), "listening") {
				t.Fatalf("the program started:\n%s", out)
			}
			if !strings.Contains(string(out), path) || !strings.Contains(string(out), "put a backup in its place") {
				t.Errorf("it does not say what to do: %s", out)
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != letter {
				t.Errorf("the file was touched: %v", err)
			}
		})
	}
}
