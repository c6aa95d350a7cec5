package relay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Projection is one native event as it may leave the host (relay-host.md §1.4).
type Projection struct {
	RunID           string
	BindingID       string
	NativeThreadID  string
	NativeSeq       uint64
	SourceEventID   string
	VirtualThreadID string
	VirtualTurnID   string
	Event           string
	Timestamp       string // the native event's, RFC 3339 UTC
	Payload         json.RawMessage
}

// terminal tells whether handing the projection off settles its turn (RH42).
func (p Projection) terminal() bool { return p.Event == wire.EventTurnCompleted }

// envelope is the projection under its place in the run.
func (p Projection) envelope(seq uint64) wire.Envelope {
	return wire.Envelope{
		SchemaVersion: wire.EnvelopeSchemaVersion, Seq: seq, Event: p.Event, Kind: p.Event,
		ThreadID: p.VirtualThreadID, TurnID: p.VirtualTurnID, SourceEventID: p.SourceEventID,
		Timestamp: p.Timestamp, Payload: p.Payload,
	}
}

// features are the negotiated additions to RH40.
type features struct{ outcome, reasoning, steer bool }

func featuresOf(capabilities []string) features {
	return features{
		outcome:   slices.Contains(capabilities, wire.CapabilityOutcome),
		reasoning: slices.Contains(capabilities, wire.CapabilityReasoning),
		steer:     slices.Contains(capabilities, wire.CapabilitySteer),
	}
}

// Defaults of a terminal whose native turn says nothing of its billing. They mean
// unpriced, not free (trap 20).
const (
	defaultBillingSurface = "provider_byok"
	defaultBillingMode    = "local"
)

// project is the decision of RH40 for an event of a known turn: the payload that
// may go out, or nil for an event to skip. The result depends on nothing but its
// arguments, so an event that is sent again has the same content.
func project(e NativeEvent, b Binding, f features) json.RawMessage {
	switch e.Event {
	case wire.EventTurnStarted:
		var out wire.StartedPayload
		out.Turn.Model = textOr(turnFields(e.Payload)["effective_model"], b.Model)
		out.Turn.Mode = "chat"
		return encode(out)
	case wire.EventItemDelta:
		return projectDelta(e.Payload, f)
	case wire.EventTurnCompleted:
		return projectCompleted(e.Payload, b, f)
	}
	return nil
}

func projectDelta(payload json.RawMessage, f features) json.RawMessage {
	fields := objectOf(payload)
	kind, ok := textOf(fields["kind"])
	if !ok || kind != wire.DeltaMessage && (kind != wire.DeltaReasoning || !f.reasoning) {
		return nil
	}
	delta, ok := textOf(fields["delta"])
	if !ok {
		return nil
	}
	return encode(wire.DeltaPayload{Kind: kind, Delta: delta})
}

func projectCompleted(payload json.RawMessage, b Binding, f features) json.RawMessage {
	turn := turnFields(payload)
	out := wire.CompletedPayload{Turn: wire.CompletedTurn{
		Status:                  textOr(turn["status"], wire.NativeFailed),
		Usage:                   safeUsage(turn["usage"]),
		EffectiveModel:          textOr(turn["effective_model"], b.Model),
		EffectiveProvider:       textOr(turn["effective_provider"], b.ModelProvider),
		EffectiveBillingSurface: textOr(turn["effective_billing_surface"], defaultBillingSurface),
		EffectiveBillingMode:    textOr(turn["effective_billing_mode"], defaultBillingMode),
	}}
	if f.outcome {
		out.Outcome = safeOutcome(objectOf(payload)["outcome"], f)
	}
	return encode(out)
}

// safeUsage lets the counts out that a provider may report (trap 11). A usage that
// is missing is {}; one that is no object says nothing that could be counted.
func safeUsage(raw json.RawMessage) json.RawMessage {
	if string(bytes.TrimSpace(raw)) == "null" {
		return json.RawMessage("null")
	}
	out := map[string]json.RawMessage{}
	for name, value := range objectOf(raw) {
		switch name {
		case "input_tokens", "output_tokens", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens",
			"prompt_cache_write_tokens", "reasoning_tokens", "reasoning_replay_tokens":
			if isNumber(value) {
				out[name] = value
			}
		case "reasoning_outside":
			if string(value) == "true" || string(value) == "false" {
				out[name] = value
			}
		case "service_tier":
			if tier, ok := textOf(value); ok && safeWord(tier, 64) {
				out[name] = value
			}
		case "server_tool_use":
			if counts := numbersOf(value); len(counts) > 0 {
				out[name] = encode(counts)
			}
		}
	}
	return encode(out)
}

// safeWord accepts what a name or an id is made of, and no prose.
func safeWord(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.:", r)
	})
}

// turnFields is payload.turn.
func turnFields(payload json.RawMessage) map[string]json.RawMessage {
	return objectOf(objectOf(payload)["turn"])
}

// objectOf gives the members of an object, nil for anything else.
func objectOf(raw json.RawMessage) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

func textOf(raw json.RawMessage) (string, bool) {
	var out *string
	if len(raw) == 0 || json.Unmarshal(raw, &out) != nil || out == nil {
		return "", false
	}
	return *out, true
}

func textOr(raw json.RawMessage, otherwise string) string {
	if text, ok := textOf(raw); ok {
		return text
	}
	return otherwise
}

func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

func numbersOf(raw json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, value := range objectOf(raw) {
		if safeWord(name, 64) && isNumber(value) {
			out[name] = value
		}
	}
	return out
}

// encode writes JSON without the escapes for HTML, which would make a delta up to
// six times as long.
func encode(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only values of this file get here, and all of them can be encoded.
		return json.RawMessage("{}")
	}
	return json.RawMessage(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// timestamp is RFC 3339 UTC with milliseconds.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
