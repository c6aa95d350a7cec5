package relaytest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// Names that tests share.
const (
	Target    = "target_fixture"
	Session   = "session_fixture"
	Account   = "account_fixture"
	Run       = "run_fixture"
	Workspace = "workspace_fixture"
	Provider  = "fixture"
	Model     = "model-a"
	Challenge = "challenge_0123456789_0123456789_ab"
)

// BindingID, ThreadID, TurnID and OperationKey give the n-th id of their kind.
func BindingID(n int) string { return fmt.Sprintf("binding_%d", n) }

// ThreadID gives the n-th virtual thread id.
func ThreadID(n int) string { return fmt.Sprintf("local_thread_%024x", n) }

// TurnID gives the n-th virtual turn id.
func TurnID(n int) string { return fmt.Sprintf("local_turn_%024x", n) }

// OperationKey gives the n-th operation key.
func OperationKey(n int) string { return fmt.Sprintf("operation-%d", n) }

// Fingerprint gives a fingerprint of one repeated digit.
func Fingerprint(digit string) string { return strings.Repeat(digit, 64) }

// Prompt makes a valid command: turn n of binding b.
func Prompt(b, n int) *wire.PromptRequest {
	return &wire.PromptRequest{
		Type: wire.TypePromptRequest, RunID: Run, TurnID: TurnID(n), OperationKey: OperationKey(n),
		RuntimeBindingID: BindingID(b), RuntimeThreadID: ThreadID(b), Prompt: "look",
		Model: Model, ModelProvider: Provider, ModelProviderID: Provider,
		AllowedTools: []string{}, Mode: "chat", RequestedMode: "chat",
		Workspace: wire.Workspace{ID: Workspace, TargetRef: Target},
	}
}

// Interrupt makes the command that stops turn n of binding b.
func Interrupt(b, n int) *wire.RunControl {
	return &wire.RunControl{
		Type: wire.TypeRunControl, RunID: Run, Action: "interrupt", Reason: "stopped by the person",
		TurnID: TurnID(n), RuntimeBindingID: BindingID(b), RuntimeThreadID: ThreadID(b),
	}
}

// Message puts a command under a seq.
func Message(seq uint64, command any) wire.CommandMessage {
	raw, err := json.Marshal(command)
	if err != nil {
		panic(err) // a command that is no JSON
	}
	return wire.CommandMessage{RunID: Run, Seq: seq, Command: raw}
}

// Attach makes an attachment from a cursor.
func Attach(cursor uint64) wire.Attach {
	return wire.Attach{
		TargetRef: Target, SessionID: Session, AccountRef: Account,
		RunID: Run, WorkspaceID: Workspace, Cursor: cursor,
	}
}

// Providers is one ready provider with two models: model-a can do all, of model-b
// nothing is known.
func Providers() []relay.ProviderEntry {
	return []relay.ProviderEntry{{
		ID: Provider, Key: Provider, DisplayName: "Fixture", CredentialState: wire.CredentialConfigured,
		Ready: true, Default: Model, Models: []relay.ModelEntry{
			{ID: "model-b"},
			{
				ID: Model, Family: "family", ImageInput: wire.Supported, OutputLimit: wire.Supported,
				Reasoning: wire.Supported, ReasoningLevels: []string{"low", "high"}, ReasoningSource: "catalog",
			},
		},
	}}
}
