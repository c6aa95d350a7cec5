package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Hash domains of the relay contract (relay-host.md §5). They are wire format.
const (
	domainScope    = "codewhale.runtime-chat-scope.v1"
	domainOwner    = "codewhale.runtime-chat-owner.v1"
	domainSource   = "codewhale.runtime-chat-source-event.v1"
	domainTurn     = "codewhale.runtime-chat-native-turn.v1"
	domainCatalog  = "codewhale.runtime-chat-catalog.v1"
	domainTarget   = "codewhale-remote-target:v2"
	domainNativeOp = "runtime-turn-operation"

	domainJournal        = "cwc-remote-control-journal.v2"
	domainJournalSession = "cwc-remote-control-journal"
	domainRecovery       = "codewhale.classic-recovery-turn.v1"
	domainApproval       = "local-runtime:approval"
	domainErrorItem      = "local-runtime:error"
)

const (
	sepNUL  = "\x00"
	sepUnit = "\x1f"
)

// ScopeKey is the name of the scope of (target, session): scope- and 64 hex
// digits. It tells neither (RH1).
func ScopeKey(target, session string) string {
	return "scope-" + joined(sepNUL, domainScope, target, session)
}

// OwnerFingerprint is 64 hex digits over account, target and session (RH6).
func OwnerFingerprint(account, target, session string) string {
	return joined(sepNUL, domainOwner, account, target, session)
}

// SourceEventID names the native event seq of a native thread (RH41).
func SourceEventID(nativeThreadID string, seq uint64) string {
	h := sha256.New()
	write(h, domainSource, sepNUL, nativeThreadID, sepNUL)
	var be [8]byte
	binary.BigEndian.PutUint64(be[:], seq)
	h.Write(be[:])
	return "native_event_" + hexOf(h)
}

// NativeTurnID is the deterministic id that a turn is reserved with (RH32).
// operationFingerprint is the lower-case hex text.
func NativeTurnID(nativeThreadID, bindingID, virtualTurnID, operationFingerprint string) string {
	return "turn_" + joined(sepNUL, domainTurn, nativeThreadID, bindingID, virtualTurnID, operationFingerprint)
}

// CatalogEventID names a catalog of a run by the fingerprint of its payload.
func CatalogEventID(runID, payloadFingerprint string) string {
	return "catalog_" + joined(sepNUL, domainCatalog, runID, payloadFingerprint)
}

// TargetRef names a data folder by its absolute path without telling it.
func TargetRef(absolutePath string) string {
	return "target_" + joined(sepNUL, domainTarget, absolutePath)[:32]
}

// JournalScopeTag names the journal of (target, session): 32 hex digits.
func JournalScopeTag(target, session string) string {
	return joined(sepNUL, domainJournal, target, session)[:32]
}

// JournalSessionTag names the lease index of a session: 32 hex digits.
func JournalSessionTag(session string) string {
	return joined(sepNUL, domainJournalSession, session)[:32]
}

// RecoveryTurnID names the turn that recovery synthesises for a lease (RH63).
func RecoveryTurnID(runID, leaseID string) string {
	return "turn_recovered_" + joined(sepNUL, domainRecovery, runID, leaseID)[:24]
}

// ApprovalGateID names an approval without telling the tool call (RH55).
func ApprovalGateID(toolCallID string) string {
	return "local_approval_" + joined(sepNUL, domainApproval, toolCallID)[:24]
}

// ErrorItemID names the error item of a turn (RH64).
func ErrorItemID(runID, turnID, code string) string {
	return "local_item_" + joined(sepNUL, domainErrorItem, runID, turnID, code)[:24]
}

// NativeOperationFingerprint binds an operation key to a store and a thread
// (RH65); the raw key is never stored.
func NativeOperationFingerprint(storeOwnerID, nativeThreadID, operationKey string) string {
	return joined(sepUnit, domainNativeOp, storeOwnerID, nativeThreadID, operationKey)
}

// Fingerprint is the lower-case hex SHA-256 of raw bytes: operation keys and
// system prompts are fingerprinted untrimmed.
func Fingerprint(raw string) string { return joined("", raw) }

func joined(sep string, parts ...string) string {
	h := sha256.New()
	for i, p := range parts {
		if i > 0 {
			write(h, sep)
		}
		write(h, p)
	}
	return hexOf(h)
}

func write(h hash.Hash, parts ...string) {
	for _, p := range parts {
		_, _ = h.Write([]byte(p))
	}
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
