package provider

import (
	"errors"

	"github.com/fairlead/fairlead/relay/wire"
)

// Settle decides how a turn ends after one response: res and err are what
// Stream returned, sawText is whether any answer text (not only white space)
// was emitted. A context that ended is for the caller to judge first; here it
// is an internal failure like any other error that is no *Failure.
//
// The order of the cases is the rule: an incomplete answer fails even with a
// tool call in it (decision 35), a tool call never runs (decision 14).
func Settle(res Result, err error, sawText bool) Outcome {
	if err != nil {
		var f *Failure
		if errors.As(err, &f) {
			return failed(f.Code)
		}
		return failed(wire.CodeOf(err))
	}
	tool := res.ToolCall || res.Finish == FinishToolCall
	declined := res.Finish == FinishRefused || res.Finish == FinishFiltered
	switch {
	case res.Finish == FinishLength:
		return failed(wire.CodeModelOutputIncomplete)
	case declined && sawText:
		return Outcome{Status: wire.NativeCompleted, Finish: wire.FinishRefusedInPart}
	case declined:
		return failed(wire.CodeModelRefused)
	case tool && sawText:
		return Outcome{Status: wire.NativeCompleted, Finish: wire.FinishToolCallIgnored}
	case tool:
		return failed(wire.CodeModelToolCallUnsupported)
	case !sawText:
		return failed(wire.CodeModelOutputEmpty)
	}
	return Outcome{Status: wire.NativeCompleted}
}

func failed(code wire.Code) Outcome { return Outcome{Status: wire.NativeFailed, Code: code} }
