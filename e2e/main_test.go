// Package e2e drives the built binary from outside, as a person's browser or a
// program would: over sockets, with kill -9, against a provider whose every byte
// it decides. It imports no package of the product.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test, built once per run of the tests.
var binary string

func TestMain(m *testing.M) {
	if kind := os.Getenv(pumpKind); kind != "" {
		os.Exit(servePump(kind))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if given := os.Getenv("E2E_BINARY"); given != "" {
		binary = given
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "fairlead-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fairlead")
	build := exec.Command("go", "build", "-o", binary, "../cmd/fairlead")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the binary:", err)
		return 1
	}
	return m.Run()
}
