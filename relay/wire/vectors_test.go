package wire_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

// vectors are the golden vectors of the relay contract; the reference domains
// bind.
type vectors struct {
	Reference   []hashVector    `json:"reference"`
	NoDomain    []hashVector    `json:"no_domain"`
	Request     []requestVector `json:"request_fingerprint"`
	Validation  map[string][]acceptance
	Reservation json.RawMessage `json:"reservation"`
}

type hashVector struct {
	Name   string          `json:"name"`
	Inputs json.RawMessage `json:"inputs"`
	Output string          `json:"output"`
}

type hashInputs struct {
	Target        string          `json:"target_ref"`
	Session       string          `json:"session_id"`
	Account       string          `json:"account_ref"`
	NativeThread  string          `json:"native_thread_id"`
	NativeSeq     uint64          `json:"native_seq"`
	Binding       string          `json:"runtime_binding_id"`
	VirtualTurn   string          `json:"virtual_turn_id"`
	OperationKey  string          `json:"operation_key"`
	OperationFP   string          `json:"operation_fingerprint"`
	SystemPrompt  string          `json:"system_prompt"`
	Payload       json.RawMessage `json:"payload"`
	CanonicalJSON string          `json:"canonical_json"`
	Run           string          `json:"run_id"`
	PayloadFP     string          `json:"payload_fingerprint"`
	Lease         string          `json:"lease_id"`
	Path          string          `json:"path"`
	ToolCall      string          `json:"tool_call_id"`
	Turn          string          `json:"turn_id"`
	Code          string          `json:"code"`
	StoreOwner    string          `json:"store_owner_id"`
}

type requestVector struct {
	Name      string          `json:"name"`
	Command   json.RawMessage `json:"command"`
	Canonical string          `json:"canonical_json"`
	Output    string          `json:"output"`
}

type acceptance struct {
	Value string `json:"value"`
	OK    bool   `json:"ok"`
}

func loadVectors(t testing.TB) vectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/relay-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v hashVector) inputs(t *testing.T) hashInputs {
	t.Helper()
	var in hashInputs
	if err := json.Unmarshal(v.Inputs, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

func (v hashVector) compute(t *testing.T) string {
	t.Helper()
	in := v.inputs(t)
	switch v.Name {
	case "scope_dir":
		return wire.ScopeKey(in.Target, in.Session)
	case "owner_fingerprint":
		return wire.OwnerFingerprint(in.Account, in.Target, in.Session)
	case "source_event_id":
		return wire.SourceEventID(in.NativeThread, in.NativeSeq)
	case "reserved_native_turn_id":
		if fp := wire.Fingerprint(in.OperationKey); fp != in.OperationFP {
			t.Errorf("operation fingerprint %s, want %s", fp, in.OperationFP)
		}
		return wire.NativeTurnID(in.NativeThread, in.Binding, in.VirtualTurn, in.OperationFP)
	case "catalog_payload_fingerprint":
		var c wire.Catalog
		if err := wire.DecodeStrict(in.Payload, &c); err != nil {
			t.Fatal(err)
		}
		fp, err := c.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return fp
	case "catalog_source_event_id":
		return wire.CatalogEventID(in.Run, in.PayloadFP)
	case "journal_scope_tag":
		return wire.JournalScopeTag(in.Target, in.Session)
	case "journal_session_tag":
		return wire.JournalSessionTag(in.Session)
	case "recovery_turn_id":
		return wire.RecoveryTurnID(in.Run, in.Lease)
	case "target_ref":
		return wire.TargetRef(in.Path)
	case "approval_gate_id":
		return wire.ApprovalGateID(in.ToolCall)
	case "error_item_id":
		return wire.ErrorItemID(in.Run, in.Turn, in.Code)
	case "native_operation_key_fingerprint":
		return wire.NativeOperationFingerprint(in.StoreOwner, in.NativeThread, in.OperationKey)
	case "operation_fingerprint":
		return wire.Fingerprint(in.OperationKey)
	case "system_prompt_fingerprint":
		return wire.Fingerprint(in.SystemPrompt)
	case "native_request_fingerprint":
		text, err := wire.CanonicalJSON(in.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != in.CanonicalJSON {
			t.Errorf("canonical %s, want %s", text, in.CanonicalJSON)
		}
		return wire.Fingerprint(string(text))
	}
	t.Fatalf("no function for vector %q", v.Name)
	return ""
}

func TestRH1_RH6_RH32_RH41_RH60_RH65_ReferenceVectors(t *testing.T) {
	t.Parallel()
	v := loadVectors(t)
	if len(v.Reference) != 19 || len(v.NoDomain) != 6 {
		t.Fatalf("%d reference vectors and %d without a domain, want 19 and 6", len(v.Reference), len(v.NoDomain))
	}
	for i, vec := range append(v.Reference, v.NoDomain...) {
		t.Run(fmt.Sprintf("%02d %s", i, vec.Name), func(t *testing.T) {
			t.Parallel()
			if got := vec.compute(t); got != vec.Output {
				t.Errorf("got %s, want %s", got, vec.Output)
			}
		})
	}
}

func TestRH14_RequestFingerprintVectors(t *testing.T) {
	t.Parallel()
	v := loadVectors(t)
	if len(v.Request) != 7 {
		t.Fatalf("%d request vectors, want 7", len(v.Request))
	}
	for _, vec := range v.Request {
		t.Run(vec.Name, func(t *testing.T) {
			t.Parallel()
			cmd, err := wire.ParseCommand(vec.Command)
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Validate(); err != nil {
				t.Errorf("valid command refused: %v", err)
			}
			text, err := wire.Canonical(cmd.Prompt)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != vec.Canonical {
				t.Errorf("canonical\n%s\nwant\n%s", text, vec.Canonical)
			}
			fp, err := cmd.Prompt.RequestFingerprint()
			if err != nil || fp != vec.Output {
				t.Errorf("fingerprint %s, %v; want %s", fp, err, vec.Output)
			}
		})
	}
}

func TestRH13_RH15_RH19_RH20_RH21_ValidationVectors(t *testing.T) {
	t.Parallel()
	checks := map[string]func(string) bool{
		"model_id":          wire.ValidModelID,
		"route_id":          wire.ValidRouteID,
		"relay_id":          wire.ValidRelayID,
		"operation_key":     wire.ValidOperationKey,
		"virtual_thread_id": wire.ValidVirtualThreadID,
		"virtual_turn_id":   wire.ValidVirtualTurnID,
		"native_record_id":  wire.ValidNativeID,
		"challenge":         wire.ValidChallenge,
		"reasoning_effort": func(s string) bool {
			_, ok := wire.NormalizeEffort(s)
			return ok
		},
	}
	tables := loadVectors(t).Validation
	if len(tables) != len(checks) {
		t.Fatalf("%d tables, %d checks", len(tables), len(checks))
	}
	for name, rows := range tables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, row := range rows {
				if got := checks[name](row.Value); got != row.OK {
					t.Errorf("%q: %v, want %v", row.Value, got, row.OK)
				}
			}
		})
	}
}
