package main

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/fairlead/fairlead/"

// allowed is the import rule: what a package may import of this module, beside
// itself. Imports point inward to relay/wire, relay never imports gateway, and
// the packages of one folder meet only in cmd.
var allowed = map[string]string{
	"relay/wire":         "",
	"relay/sqldb":        "",
	"relay/sqldb/pgtest": "",
	"relay/provider":     "relay/wire",
	"relay/link":         "relay/wire",
	"relay/control":      "relay/wire",
	"relay":              "relay/wire",
	"relay/native":       "relay relay/wire relay/provider",
	"relay/relaysql":     "relay relay/native relay/wire relay/sqldb",
	"relay/relaytest":    "relay relay/native relay/relaysql relay/provider relay/wire relay/sqldb",
	"gateway":            "relay/wire",
	"gateway/accounts":   "gateway relay/wire",
	"gateway/chat":       "gateway relay/wire",
	"gateway/enroll":     "gateway relay/wire",
	"gateway/routes":     "gateway relay/wire",
	"gateway/hosts":      "gateway relay/wire relay/link",
	"gateway/socket":     "gateway relay/wire",
	"gateway/markdown":   "gateway",
	"gateway/bus":        "gateway",
	"gateway/gatewaysql": "gateway relay/wire relay/sqldb",
	"gateway/gatewaytest": "gateway gateway/gatewaysql gateway/chat gateway/accounts gateway/bus " +
		"relay/wire relay/sqldb relay/sqldb/pgtest",
	"gateway/httpd": "gateway gateway/accounts gateway/chat gateway/routes gateway/hosts gateway/enroll gateway/usage gateway/socket " +
		"relay/wire views views/chat views/admin views/account static",
	"views":                        "relay/wire static",
	"views/chat":                   "views relay/wire static",
	"views/admin":                  "views relay/wire static",
	"views/account":                "views relay/wire static",
	"static":                       "",
	"cmd/fairlead/terminal":        "cmd/fairlead/terminal/client relay/wire",
	"cmd/fairlead/terminal/client": "relay/wire",
	"e2e":                          "",
}

func TestImportsPointInward(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f",
		"{{.ImportPath}}:{{range .Imports}} {{.}}{{end}}", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 10 {
		t.Fatalf("go list named %d packages only", len(lines))
	}
	for _, line := range lines {
		path, imports, _ := strings.Cut(line, ":")
		pkg := strings.TrimPrefix(path, module)
		own, known := allowed[pkg]
		if !known && strings.HasPrefix(pkg, "cmd/") {
			continue
		}
		if !known && !strings.HasPrefix(pkg, "e2e/") {
			t.Errorf("%s has no line in the import rule", pkg)
			continue
		}
		for _, imported := range strings.Fields(imports) {
			dep, ours := strings.CutPrefix(imported, module)
			if ours && !contains(strings.Fields(own), dep) {
				t.Errorf("%s imports %s, which the import rule does not allow", pkg, dep)
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}
