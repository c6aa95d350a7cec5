package e2e

import (
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"

	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// TestDocs_SQLWorks runs the statements that the docs show on a real server.
func TestDocs_SQLWorks(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, block := range sqlBlock.FindAllStringSubmatch(string(text), -1) {
		for statement := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
			seen++
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	}
	if seen == 0 {
		t.Error("no statements found")
	}
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestDocs_CommandsWork runs every command that README and docs show: those of
// the program against a folder of their own; of make the target must exist.
func TestDocs_CommandsWork(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range append(files, "../README.md") {
		if filepath.Base(file) == "api.md" {
			continue // TestDocs_APIExamplesWork
		}
		in := newInstall(t, "http://127.0.0.1:1", model{"m", "m"})
		switch filepath.Base(file) {
		case "hosts.md", "control-plane.md":
			joinHost(t, in, "gpu-box")
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				command, _, _ := strings.Cut(line, "#")
				if fields := strings.Fields(command); len(fields) > 0 {
					seen++
					try(t, in, file, fields)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("found %d commands only", seen)
	}
}

// joinHost has a machine join with the command that is printed for it.
func joinHost(t *testing.T, in *install, name string) *install {
	t.Helper()
	in.start()
	defer in.stop()
	printed := strings.Fields(in.command("", "admin", "host", "invite", "--name", name, "--public-url", in.url))
	if len(printed) != 5 || printed[0] != "fairlead" {
		t.Fatalf("printed %q", printed)
	}
	host := newInstall(t, "http://127.0.0.1:1", model{"m", "m"})
	host.command("", printed[1:]...)
	return host
}

// withHost puts the id of the embedded host, which is never revoked, where docs have an example of one.
func withHost(t *testing.T, in *install, args []string) []string {
	t.Helper()
	args = slices.Clone(args)
	for i, arg := range args {
		if !strings.HasPrefix(arg, "target_") {
			continue
		}
		var hosts []struct{ ID, Name string }
		listed := in.command("", "admin", "host", "list", "--json")
		if err := json.Unmarshal([]byte(listed), &hosts); err != nil {
			t.Fatalf("%v: %s", err, listed)
		}
		at := slices.IndexFunc(hosts, func(h struct{ ID, Name string }) bool { return h.Name == "embedded" })
		if at < 0 {
			t.Fatalf("no embedded host: %+v", hosts)
		}
		args[i] = hosts[at].ID
	}
	return args
}

func try(t *testing.T, in *install, file string, fields []string) {
	t.Helper()
	switch fields[0] {
	case "make":
		if out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", "..", "-n"}, fields[1:]...)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %v\n%s", file, fields, err, out)
		}
	case "bin/fairlead", "fairlead":
		if fields[1] == "serve" {
			in.start()
			in.stop()
			return
		}
		in.command("a long enough password\n", withHost(t, in, fields[1:])...)
	default:
		t.Errorf("%s: nobody tries %q", file, strings.Join(fields, " "))
	}
}
