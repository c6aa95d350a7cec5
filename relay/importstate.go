package relay

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	referenceSchemaVersion = 2

	// maxStateBytes bounds a state file: beyond it something is wrong with it.
	maxStateBytes = 256 << 20
)

// ImportRequest names a state file of the reference host and whose it is.
type ImportRequest struct {
	// Path is a runtime-chat-bindings.json. If its folder is called scope-<hex>,
	// that must be the scope of Target and Session.
	Path            string
	Target, Session string
	// Account is optional; if it is given, the file's owner must be this one.
	Account string
	Now     func() time.Time // nil means time.Now
}

// Imported says what ImportState brought in. Unsettled turns keep their scope's run
// from being switched until their native store is there to end them.
type Imported struct {
	ScopeKey                   string
	Bindings, Turns, Unsettled int
}

// stateFile is the reference's file (relay-host.md §1.2).
type stateFile struct {
	SchemaVersion         int            `json:"schemaVersion" validate:"required"`
	OwnerScopeFingerprint *string        `json:"ownerScopeFingerprint"`
	Bindings              []stateBinding `json:"bindings"`
}

type stateBinding struct {
	RunID                     string               `json:"runId" validate:"required,relayid"`
	RuntimeBindingID          string               `json:"runtimeBindingId" validate:"required,relayid"`
	VirtualThreadID           string               `json:"virtualThreadId" validate:"required,vthread"`
	NativeThreadID            string               `json:"nativeThreadId" validate:"required,nativeid"`
	Model                     string               `json:"model" validate:"required,modelid"`
	ModelProvider             string               `json:"modelProvider" validate:"required,routeid"`
	ModelProviderID           string               `json:"modelProviderId" validate:"required,routeid"`
	FirstOperationFingerprint string               `json:"firstOperationFingerprint" validate:"required,fingerprint"`
	SystemPromptFingerprint   *string              `json:"systemPromptFingerprint" validate:"omitnil,fingerprint"`
	Turns                     map[string]stateTurn `json:"turns"`
	ProjectedNativeSeq        uint64               `json:"projectedNativeSeq"`
}

type stateTurn struct {
	NativeTurnID         string `json:"nativeTurnId" validate:"required,nativeid"`
	OperationFingerprint string `json:"operationFingerprint" validate:"required,fingerprint"`
	RequestFingerprint   string `json:"requestFingerprint" validate:"required,fingerprint"`
	TerminalProjected    bool   `json:"terminalProjected"`
	StartRejected        bool   `json:"startRejected"`
}

// ImportState brings a state file of the reference host into a store. All of it is
// stored, or nothing. The file is only read: one that cannot be trusted in full is
// relay_state_untrusted, with what to do next (RH3), and stays as it is. So does a
// store that has state of the scope already. Errors also: relay_owner_invalid,
// relay_owner_mismatch, relay_store_unavailable.
func ImportState(ctx context.Context, store Store, r ImportRequest) (Imported, error) {
	if !wire.ValidOwnerComponent(r.Target) || !wire.ValidOwnerComponent(r.Session) ||
		r.Account != "" && !wire.ValidOwnerComponent(r.Account) {
		return Imported{}, wire.NewError(wire.CodeOwnerInvalid, "The target, the session or the account is not valid.")
	}
	raw, err := readStateFile(r.Path)
	if err != nil {
		return Imported{}, err
	}
	var file stateFile
	if err := wire.DecodeStrict(raw, &file); err != nil {
		return Imported{}, fileUntrusted("it is not the JSON of such a file", err)
	}
	now := r.Now
	if now == nil {
		now = time.Now
	}
	scope, err := file.scope(r, now())
	if err != nil {
		return Imported{}, err
	}
	if err := store.ImportScope(ctx, scope); err != nil {
		return Imported{}, readFault(err)
	}
	out := Imported{ScopeKey: scope.Scope.Key, Bindings: len(scope.Bindings), Turns: len(scope.Turns)}
	for _, t := range scope.Turns {
		if t.Unsettled() {
			out.Unsettled++
		}
	}
	return out, nil
}

func readStateFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, storeFault("read the state file", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxStateBytes {
		return nil, fileUntrusted("it is no regular file of a plausible size", nil)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, storeFault("read the state file", err)
	}
	return raw, nil
}

func fileUntrusted(what string, cause error) error {
	return wire.WrapError(wire.CodeStateUntrusted, "The state file cannot be trusted: "+what+
		". Nothing was imported, and the file was not changed. Let the host that wrote it open it once, or take its last good copy.", cause)
}

func (f stateFile) scope(r ImportRequest, now time.Time) (ImportedScope, error) {
	key := wire.ScopeKey(r.Target, r.Session)
	folder := filepath.Base(filepath.Dir(r.Path))
	switch {
	case f.SchemaVersion != referenceSchemaVersion:
		return ImportedScope{}, fileUntrusted("its schema version is not 2", nil)
	case strings.HasPrefix(folder, "scope-") && folder != key:
		return ImportedScope{}, wire.NewError(wire.CodeOwnerMismatch, "The file stands in the folder of another target and session.")
	case f.OwnerScopeFingerprint == nil && len(f.Bindings) > 0:
		return ImportedScope{}, fileUntrusted("it has bindings but no owner", nil)
	case f.OwnerScopeFingerprint == nil:
		return ImportedScope{}, wire.NewError(wire.CodeOwnerUnbound, "The file is empty: no account was ever bound to it.")
	case !wire.ValidFingerprint(*f.OwnerScopeFingerprint):
		return ImportedScope{}, fileUntrusted("its owner is not a fingerprint", nil)
	}
	out := ImportedScope{Scope: ScopeRecord{
		Key: key, TargetRef: r.Target, SessionID: r.Session, CreatedAt: now,
		OwnerFingerprint: strings.ToLower(*f.OwnerScopeFingerprint),
	}}
	if r.Account != "" && wire.OwnerFingerprint(r.Account, r.Target, r.Session) != out.Scope.OwnerFingerprint {
		return out, wire.NewError(wire.CodeOwnerMismatch, "The file belongs to another account, target or session.")
	}
	seen := map[string]bool{}
	for i, b := range f.Bindings {
		if err := b.addTo(&out, int64(i)+1, now, seen); err != nil {
			return out, err
		}
	}
	return out, nil
}

// addTo checks a binding and its turns and adds them. seen holds what may not be
// shared: binding ids, virtual and native thread ids, native turn ids.
func (b stateBinding) addTo(out *ImportedScope, ordinal int64, now time.Time, seen map[string]bool) error {
	if wire.ValidateStruct(b) != nil {
		return fileUntrusted("a binding has an invalid id, route or fingerprint", nil)
	}
	for _, name := range []string{"binding " + b.RuntimeBindingID, "thread " + b.VirtualThreadID, "native " + b.NativeThreadID} {
		if seen[name] {
			return fileUntrusted("two bindings share an id", nil)
		}
		seen[name] = true
	}
	out.Bindings = append(out.Bindings, Binding{
		Ordinal: ordinal, RunID: b.RunID, BindingID: b.RuntimeBindingID,
		VirtualThreadID: b.VirtualThreadID, NativeThreadID: b.NativeThreadID,
		Model: b.Model, ModelProvider: b.ModelProvider, ModelProviderID: b.ModelProviderID,
		FirstOperation: strings.ToLower(b.FirstOperationFingerprint),
		SystemPrompt:   strings.ToLower(valueOf(b.SystemPromptFingerprint)),
		ProjectedSeq:   b.ProjectedNativeSeq, CreatedAt: now,
	})
	ids := make([]string, 0, len(b.Turns))
	for id := range b.Turns {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	operations := map[string]bool{}
	for _, id := range ids {
		t := b.Turns[id].turn(b, id, now)
		if wire.ValidateStruct(b.Turns[id]) != nil || t.validate() != nil {
			return fileUntrusted("a turn has an invalid id, fingerprint or state", nil)
		}
		if operations[t.OperationFingerprint] || seen["turn "+t.NativeTurnID] {
			return fileUntrusted("two turns share an operation or a native id", nil)
		}
		operations[t.OperationFingerprint], seen["turn "+t.NativeTurnID] = true, true
		out.Turns = append(out.Turns, t)
	}
	return nil
}

func (t stateTurn) turn(b stateBinding, id string, now time.Time) Turn {
	out := Turn{
		RunID: b.RunID, BindingID: b.RuntimeBindingID, TurnID: id, NativeTurnID: t.NativeTurnID,
		OperationFingerprint: strings.ToLower(t.OperationFingerprint),
		RequestFingerprint:   strings.ToLower(t.RequestFingerprint),
		TerminalProjected:    t.TerminalProjected, StartRejected: t.StartRejected, ReservedAt: now,
	}
	if out.TerminalProjected {
		out.SettledAt = now
	}
	return out
}
