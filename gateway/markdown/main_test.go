package markdown_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The clock is that of the lexers' regular expressions: it ends by itself once
// no match has run for a while.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}
