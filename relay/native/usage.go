package native

import (
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// settle fills in what a turn with the given steps reports at its end, and its
// turn.completed. The usage of a turn with several responses is the sum of what was
// reported for them.
func (c *Completion) settle(outcome *wire.Outcome, t Turn, steps []Step, last provider.Result, recovered bool) {
	var reports []wire.ResponseUsage
	for _, s := range steps {
		outcome.Deliveries = append(outcome.Deliveries, s.Delivered)
		if s.Usage != nil {
			reports = append(reports, wire.ResponseUsage{ResponseID: s.ResponseID, Usage: *s.Usage})
		}
	}
	if last.Usage != nil {
		reports = append(reports, wire.ResponseUsage{ResponseID: last.ResponseID, Usage: *last.Usage})
	}
	if len(reports) > 0 {
		c.Usage = encode(sum(reports))
	}
	if len(steps) > 0 {
		outcome.Responses = reports
	}
	c.Completed = Event{
		Name: wire.EventTurnCompleted, At: c.EndedAt, Payload: completedPayload(t, *c, *outcome, recovered),
	}
}

// sum adds reports up. What one of them left out counts as nothing where another
// has it.
func sum(reports []wire.ResponseUsage) wire.Usage {
	var total wire.Usage
	for _, r := range reports {
		u := r.Usage
		total.InputTokens += u.InputTokens
		total.OutputTokens += u.OutputTokens
		add(&total.PromptCacheHitTokens, u.PromptCacheHitTokens)
		add(&total.PromptCacheMissTokens, u.PromptCacheMissTokens)
		add(&total.PromptCacheWrite, u.PromptCacheWrite)
		add(&total.ReasoningTokens, u.ReasoningTokens)
		total.ReasoningOutside = total.ReasoningOutside || u.ReasoningOutside
		if u.ServiceTier != "" {
			total.ServiceTier = u.ServiceTier
		}
	}
	return total
}

func add(total **uint64, n *uint64) {
	if n == nil {
		return
	}
	if *total == nil {
		*total = new(uint64)
	}
	**total += *n
}
