package provider

import "github.com/fairlead/fairlead/relay/wire"

// openAIUsage is the usage object of both OpenAI APIs and of those that follow
// them; each names some fields its own way.
type openAIUsage struct {
	PromptTokens     count `json:"prompt_tokens"`
	CompletionTokens count `json:"completion_tokens"`
	InputTokens      count `json:"input_tokens"`
	OutputTokens     count `json:"output_tokens"`
	TotalTokens      count `json:"total_tokens"`

	PromptDetails     lenient[inputDetails]  `json:"prompt_tokens_details"`
	InputDetails      lenient[inputDetails]  `json:"input_tokens_details"`
	CompletionDetails lenient[outputDetails] `json:"completion_tokens_details"`
	OutputDetails     lenient[outputDetails] `json:"output_tokens_details"`

	CacheHit  count `json:"prompt_cache_hit_tokens"`
	CacheMiss count `json:"prompt_cache_miss_tokens"`
}

type inputDetails struct {
	Cached count `json:"cached_tokens"`
	Write  count `json:"cache_write_tokens"`
}

type outputDetails struct {
	Reasoning count `json:"reasoning_tokens"`
}

// report gives the usage in our terms, nil when it counts nothing.
func (u *openAIUsage) report() *wire.Usage {
	if u == nil {
		return nil
	}
	in, out := u.PromptTokens.or(u.InputTokens), u.CompletionTokens.or(u.OutputTokens)
	if !in.set && !out.set {
		return nil
	}
	var id inputDetails
	for _, d := range []*inputDetails{u.InputDetails.value, u.PromptDetails.value} {
		if d != nil {
			id = *d
		}
	}
	var od outputDetails
	for _, d := range []*outputDetails{u.OutputDetails.value, u.CompletionDetails.value} {
		if d != nil {
			od = *d
		}
	}
	r := od.Reasoning
	return &wire.Usage{
		InputTokens:           in.n,
		OutputTokens:          out.n,
		PromptCacheHitTokens:  id.Cached.or(u.CacheHit).ptr(),
		PromptCacheMissTokens: u.CacheMiss.ptr(),
		PromptCacheWrite:      id.Write.ptr(),
		ReasoningTokens:       r.ptr(),
		// The total tells whether reasoning is counted beside the output (xAI).
		ReasoningOutside: r.n > 0 && u.TotalTokens.n == in.n+out.n+r.n,
	}
}
