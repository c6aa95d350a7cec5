package chat_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Each check of a schedule costs a hundred transactions on each database; ask
	// for more with -rapid.checks.
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = flag.Set("rapid.checks", "30")
	}
	goleak.VerifyTestMain(m)
}
