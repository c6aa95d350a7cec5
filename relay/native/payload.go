package native

import (
	"encoding/json"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// Events of the ledger that are never projected.
const (
	eventThreadStarted      = "thread.started"
	eventInterruptRequested = "turn.interrupt_requested"
	eventSteered            = "turn.steered"
)

// turnPayload is a native turn as the ledger tells it. Of turn.completed a host
// lets out the fields of RH40 and the outcome, nothing else.
type turnPayload struct {
	ID              string             `json:"id"`
	ThreadID        string             `json:"thread_id"`
	Status          relay.NativeStatus `json:"status"`
	CreatedAt       string             `json:"created_at"`
	EndedAt         string             `json:"ended_at,omitempty"`
	DurationMs      *int64             `json:"duration_ms,omitempty"`
	Usage           json.RawMessage    `json:"usage,omitempty"`
	Model           string             `json:"effective_model"`
	Provider        string             `json:"effective_provider"`
	ProviderID      string             `json:"effective_provider_id"`
	BillingSurface  string             `json:"effective_billing_surface,omitempty"`
	BillingMode     string             `json:"effective_billing_mode,omitempty"`
	ReasoningEffort string             `json:"reasoning_effort,omitempty"`
}

func newTurnPayload(t Turn) turnPayload {
	return turnPayload{
		ID: t.ID, ThreadID: t.ThreadID, Status: t.Status, CreatedAt: stamp(t.CreatedAt),
		Model: t.Model, Provider: t.ModelProvider, ProviderID: t.ModelProviderID,
		BillingSurface: t.BillingSurface, BillingMode: t.BillingMode, ReasoningEffort: t.ReasoningEffort,
	}
}

func startedPayload(t Turn) json.RawMessage {
	return encode(struct {
		Turn turnPayload `json:"turn"`
	}{newTurnPayload(t)})
}

// completedPayload is the payload of turn.completed. A turn without a report has
// the empty usage {}, so that nobody takes zeros for one.
func completedPayload(t Turn, c Completion, outcome wire.Outcome, recovered bool) json.RawMessage {
	p := newTurnPayload(t)
	p.Status, p.EndedAt = c.Status, stamp(c.EndedAt)
	d := max(c.EndedAt.Sub(t.CreatedAt).Milliseconds(), 0)
	p.DurationMs = &d
	if p.Usage = c.Usage; p.Usage == nil {
		p.Usage = json.RawMessage("{}")
	}
	return encode(struct {
		Turn      turnPayload  `json:"turn"`
		Outcome   wire.Outcome `json:"outcome"`
		Recovered bool         `json:"recovered,omitempty"`
	}{p, outcome, recovered})
}

func threadPayload(t Thread) json.RawMessage {
	type thread struct {
		ID         string `json:"id"`
		CreatedAt  string `json:"created_at"`
		Model      string `json:"model"`
		Provider   string `json:"model_provider"`
		ProviderID string `json:"model_provider_id"`
	}
	return encode(struct {
		Thread thread `json:"thread"`
	}{thread{t.ID, stamp(t.CreatedAt), t.Model, t.ModelProvider, t.ModelProviderID}})
}

func deltaPayload(kind ItemKind, text string) json.RawMessage {
	return encode(wire.DeltaPayload{Kind: string(kind), Delta: text})
}

func interruptPayload(turnID string) json.RawMessage {
	return encode(struct {
		TurnID string `json:"turn_id"`
	}{turnID})
}

func steeredPayload(turnID string, d wire.Delivered) json.RawMessage {
	return encode(struct {
		TurnID     string `json:"turn_id"`
		DeliveryID string `json:"delivery_id"`
		At         uint64 `json:"at"`
		Cut        bool   `json:"cut"`
	}{turnID, d.DeliveryID, d.At, d.Cut})
}

// encode marshals what cannot fail to be marshalled: structs of this file.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// stamp is RFC 3339 in UTC with milliseconds, as everywhere on the wire.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
