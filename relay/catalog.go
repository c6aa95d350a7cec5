package relay

import (
	"context"
	"slices"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// maxCatalogModels bounds the models of one provider.
const maxCatalogModels = 10_000

// Catalog answers a catalog request with what is configured: the catalog of the
// ready providers, or why there is none, and every configured route (RH15–RH18,
// decisions on routes). The error is bad_request for a malformed challenge alone.
func (h *Host) Catalog(_ context.Context, challenge string) (wire.CatalogMessage, error) {
	if !wire.ValidChallenge(challenge) {
		return wire.CatalogMessage{}, errChallenge()
	}
	m := wire.CatalogMessage{Challenge: challenge, Routes: h.routes()}
	catalog, err := h.catalog(challenge)
	if err != nil {
		m.Error = wire.AsError(outward(err)).Body()
		return m, nil
	}
	m.Catalog = catalog
	return m, nil
}

// Catalog is the host's catalog for a bound scope (RH7, RH15). Errors:
// relay_owner_unbound, bad_request, relay_provider_not_ready, relay_catalog_empty.
func (s *Scope) Catalog(ctx context.Context, challenge string) (wire.Catalog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return wire.Catalog{}, err
	}
	if err := s.bound(); err != nil {
		return wire.Catalog{}, err
	}
	if !wire.ValidChallenge(challenge) {
		return wire.Catalog{}, errChallenge()
	}
	return s.host.catalog(challenge)
}

func errChallenge() error {
	return wire.NewError(wire.CodeBadRequest, "The challenge is not 32 to 128 letters, digits, - or _.")
}

func (h *Host) catalog(challenge string) (wire.Catalog, error) {
	if h.unpublished != nil {
		return wire.Catalog{}, h.unpublished
	}
	return wire.Catalog{
		Protocol: wire.ChatRelayProtocol, Challenge: challenge,
		Runtime: wire.CatalogRuntime{
			Service: wire.RuntimeService, APIVersion: wire.RuntimeAPIVersion, Version: h.cfg.Version,
			AuthRequired: true,
			Capabilities: wire.CatalogCapabilities{
				RelayChatV1: true, IsolatedChatThreads: true, TurnOperationIdempotency: true,
				TurnImageInputs: true, TurnOutputTokenLimit: true, StableEventIDs: true,
			},
		},
		Providers: h.published,
	}, nil
}

// publish makes the catalog entries of the ready providers, in configured order.
func publish(providers []ProviderEntry) ([]wire.CatalogProvider, error) {
	var out []wire.CatalogProvider
	var reason error
	for _, p := range providers {
		entry, err := publishOne(p)
		if err != nil {
			// The most telling reason is that of the provider that came furthest.
			if reason == nil || wire.CodeOf(err) == wire.CodeCatalogEmpty {
				reason = err
			}
			continue
		}
		out = append(out, entry)
	}
	switch {
	case len(out) > 0:
		return out, nil
	case reason != nil:
		return nil, reason
	}
	return nil, wire.NewError(wire.CodeProviderNotReady, "No provider is configured on this host.")
}

func publishOne(p ProviderEntry) (wire.CatalogProvider, error) {
	if !wire.ValidRouteID(p.ID) || !wire.ValidRouteID(p.Key) {
		return wire.CatalogProvider{}, wire.NewError(wire.CodeProviderNotReady,
			"A configured provider has a name that may not be published: use letters, digits, dots, - and _, and nothing that looks like a key, an address or a path.")
	}
	if !ready(p) {
		return wire.CatalogProvider{}, wire.NewError(wire.CodeProviderNotReady, "No configured provider is ready: check its key or its login.")
	}
	if p.CredentialState == wire.CredentialLocal && len(p.Models) == 0 {
		return wire.CatalogProvider{}, wire.NewError(wire.CodeProviderNotReady, "The local provider has no model: name one in its settings.")
	}
	models := publishModels(p)
	if len(models) == 0 {
		return wire.CatalogProvider{}, wire.NewError(wire.CodeCatalogEmpty, "The provider has no model with a name that may be published.")
	}
	if len(models) > maxCatalogModels {
		return wire.CatalogProvider{}, wire.NewError(wire.CodeCatalogEmpty, "The provider has more than 10,000 models: name those to offer in its settings.")
	}
	return wire.CatalogProvider{
		ID: p.ID, ModelProviderID: p.Key, DisplayName: p.DisplayName,
		DefaultModel: defaultModel(p, models), CredentialState: p.CredentialState, Models: models,
	}, nil
}

func ready(p ProviderEntry) bool {
	switch p.CredentialState {
	case wire.CredentialConfigured, wire.CredentialLocal, wire.CredentialNoAuth:
		return p.Ready
	}
	return false
}

func defaultModel(p ProviderEntry, models []wire.CatalogModel) string {
	if slices.ContainsFunc(models, func(m wire.CatalogModel) bool { return m.ID == p.Default }) {
		return p.Default
	}
	return models[0].ID
}

// publishModels gives the safe models, sorted bytewise, without duplicates; of two
// with one name the first counts.
func publishModels(p ProviderEntry) []wire.CatalogModel {
	names := make([]string, 0, len(p.Models))
	entries := make(map[string]ModelEntry, len(p.Models))
	for _, m := range p.Models {
		names = append(names, m.ID)
		if _, seen := entries[m.ID]; !seen {
			entries[m.ID] = m
		}
	}
	safe := wire.SafeModelIDs(names)
	out := make([]wire.CatalogModel, 0, len(safe))
	for _, id := range safe {
		out = append(out, publishModel(p, entries[id]))
	}
	return out
}

// publishModel states the facts of a model. A missing one is unknown, never guessed;
// of a custom provider all are.
func publishModel(p ProviderEntry, m ModelEntry) wire.CatalogModel {
	out := wire.CatalogModel{
		ID: m.ID, ImageInput: wire.Unknown, OutputTokenLimit: wire.Unknown,
		ReasoningEffort: wire.Unknown, ReasoningEffortLevels: []string{},
	}
	if p.Custom {
		return out
	}
	out.ImageInput, out.OutputTokenLimit, out.ReasoningEffort = known(m.ImageInput), known(m.OutputLimit), known(m.Reasoning)
	for _, level := range m.ReasoningLevels {
		canonical, ok := wire.NormalizeEffort(level)
		if ok && canonical != "off" && !slices.Contains(out.ReasoningEffortLevels, canonical) {
			out.ReasoningEffortLevels = append(out.ReasoningEffortLevels, canonical)
		}
	}
	if m.ReasoningSource != "" {
		out.ReasoningEffortSource = &m.ReasoningSource
	}
	return out
}

func known(s wire.Support) wire.Support {
	switch s {
	case wire.Supported, wire.Unsupported:
		return s
	}
	return wire.Unknown
}

// routes lists what is configured, ready or not, in configured order. A route with
// an unsafe name is not listed.
func (h *Host) routes() []wire.Route {
	out := []wire.Route{}
	for _, p := range h.cfg.Providers {
		if !wire.ValidRouteID(p.ID) || !wire.ValidRouteID(p.Key) {
			continue
		}
		models := publishModels(p)
		if len(models) == 0 {
			continue
		}
		preset := defaultModel(p, models)
		for _, m := range models {
			out = append(out, h.route(p, m, m.ID == preset))
		}
	}
	return out
}

func (h *Host) route(p ProviderEntry, m wire.CatalogModel, preset bool) wire.Route {
	r := wire.Route{
		ModelProvider: p.ID, ModelProviderID: p.Key, DisplayName: p.DisplayName,
		Model: m.ID, Family: familyOf(p, m.ID), Ready: ready(p),
		ImageInput: m.ImageInput, OutputLimit: m.OutputTokenLimit,
		Reasoning: m.ReasoningEffort, ReasoningLevels: m.ReasoningEffortLevels, Default: preset,
	}
	if !r.Ready {
		r.Reason = p.Reason
	}
	if until := h.cfg.Cooling(p.Key, m.ID); until.After(h.now()) {
		r.AvailableAt = timestamp(until.Add(time.Millisecond - 1))
	}
	return r
}

func familyOf(p ProviderEntry, model string) string {
	for _, m := range p.Models {
		if m.ID == model && m.Family != "" {
			return m.Family
		}
	}
	return p.ID
}

// routeActive is the route check of a new prompt (RH22). The output limit comes
// first, so it is also the answer for a model that is not in the catalog at all.
func (h *Host) routeActive(cmd *wire.PromptRequest) error {
	if h.unpublished != nil {
		return h.unpublished
	}
	model := h.publishedModel(cmd)
	if cmd.MaxOutputTokens != nil && (model == nil || model.OutputTokenLimit != wire.Supported) {
		return wire.NewError(wire.CodeOutputLimitUnsupported, "The model is not known to obey an output limit.")
	}
	if model == nil {
		return wire.NewError(wire.CodeRouteNotActive, "The host does not offer this model of this provider.")
	}
	if len(cmd.Images) > 0 && model.ImageInput != wire.Supported {
		return wire.NewError(wire.CodeRouteNotActive, "The model is not known to take pictures.")
	}
	return nil
}

func (h *Host) publishedModel(cmd *wire.PromptRequest) *wire.CatalogModel {
	for i := range h.published {
		p := &h.published[i]
		if p.ID != cmd.ModelProvider || p.ModelProviderID != cmd.ModelProviderID {
			continue
		}
		at, ok := slices.BinarySearchFunc(p.Models, cmd.Model, func(m wire.CatalogModel, id string) int {
			switch {
			case m.ID < id:
				return -1
			case m.ID > id:
				return 1
			}
			return 0
		})
		if ok {
			return &p.Models[at]
		}
	}
	return nil
}
