// Package e2e drives the built binary from outside, as a person's browser or a
// program would: over sockets, with kill -9, against a provider whose every byte
// it decides. It imports no package of the product.
package e2e

import (
	"context"
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
	if err := goBuild(context.Background(), binary, "../cmd/fairlead"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// goBuild builds a program as it is shipped, without cgo.
func goBuild(ctx context.Context, out, what string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", out, what)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", what, err, said)
	}
	return nil
}
