package relay

import (
	"encoding/json"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// safeOutcome lets an outcome out whose every part has the form it must have.
func safeOutcome(raw json.RawMessage, f features) *wire.Outcome {
	var in wire.Outcome
	if len(raw) == 0 || json.Unmarshal(raw, &in) != nil {
		return nil
	}
	out := wire.Outcome{Responses: safeResponses(in.Responses)}
	if safeWord(string(in.Error), 64) {
		out.Error = in.Error
	}
	if in.Finish == wire.FinishToolCallIgnored || in.Finish == wire.FinishRefusedInPart {
		out.Finish = in.Finish
	}
	if _, err := time.Parse(time.RFC3339, in.RetryAt); err == nil {
		out.RetryAt = in.RetryAt
	}
	if safeWord(in.ResponseID, 256) {
		out.ResponseID = in.ResponseID
	}
	if f.steer {
		out.Deliveries = safeDeliveries(in.Deliveries)
	}
	if out.Error == "" && out.Finish == "" && out.RetryAt == "" && out.ResponseID == "" &&
		out.Responses == nil && out.Deliveries == nil {
		return nil
	}
	return &out
}

// safeResponses lets the counts of single responses out. An id that is none is left
// out, what was counted under it is not.
func safeResponses(in []wire.ResponseUsage) []wire.ResponseUsage {
	var out []wire.ResponseUsage
	for _, r := range in {
		if !safeWord(r.ResponseID, 256) {
			r.ResponseID = ""
		}
		if !safeWord(r.Usage.ServiceTier, 64) {
			r.Usage.ServiceTier = ""
		}
		out = append(out, r)
	}
	return out
}

// safeDeliveries lets out what a turn took of what this host was offered.
func safeDeliveries(in []wire.Delivered) []wire.Delivered {
	var out []wire.Delivered
	for _, d := range in {
		if wire.ValidUUID(d.DeliveryID) && d.At <= maxCursor {
			out = append(out, d)
		}
	}
	return out
}
