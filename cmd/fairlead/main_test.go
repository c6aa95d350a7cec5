package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain lets the scripts of testdata/script run the program as `fairlead`.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"fairlead": main})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ *testing.M }

func (l leakChecked) Run() int {
	code := l.M.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
