package relay_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH15_TheChallengeIsEchoedOrRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	for _, bad := range []string{"", "short", strings.Repeat("c", 31), strings.Repeat("c", 129), strings.Repeat("c", 31) + "!"} {
		_, err := r.host.Catalog(ctx, bad)
		wantCode(t, err, wire.CodeBadRequest)
		_, err = s.Catalog(ctx, bad)
		wantCode(t, err, wire.CodeBadRequest)
	}
	m, err := r.host.Catalog(ctx, relaytest.Challenge)
	must(t, err)
	equal(t, "challenge", m.Challenge, relaytest.Challenge)
	equal(t, "challenge in the catalog", m.Catalog.Challenge, relaytest.Challenge)
	c, err := s.Catalog(ctx, relaytest.Challenge)
	must(t, err)
	equal(t, "protocol", c.Protocol, wire.ChatRelayProtocol)
	equal(t, "service", c.Runtime.Service, wire.RuntimeService)
	equal(t, "version", c.Runtime.Version, "1.2.3")
	equal(t, "tool execution", c.Runtime.Capabilities.ToolExecution, false)
}

func TestRH16_OnlyReadyProvidersArePublished(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	models := []relay.ModelEntry{{ID: "m"}}
	for name, c := range map[string]struct {
		providers []relay.ProviderEntry
		code      wire.Code
		published int
	}{
		"configured":   {[]relay.ProviderEntry{{ID: "a", Key: "a", Ready: true, CredentialState: "configured", Models: models}}, "", 1},
		"local":        {[]relay.ProviderEntry{{ID: "a", Key: "a", Ready: true, CredentialState: "local", Models: models}}, "", 1},
		"no_auth":      {[]relay.ProviderEntry{{ID: "a", Key: "a", Ready: true, CredentialState: "no_auth", Models: models}}, "", 1},
		"nothing":      {nil, wire.CodeProviderNotReady, 0},
		"missing key":  {[]relay.ProviderEntry{{ID: "a", Key: "a", CredentialState: "configured", Models: models}}, wire.CodeProviderNotReady, 0},
		"legacy state": {[]relay.ProviderEntry{{ID: "a", Key: "a", Ready: true, CredentialState: "legacy", Models: models}}, wire.CodeProviderNotReady, 0},
		"local without an explicit model": {
			[]relay.ProviderEntry{{ID: "a", Key: "a", Ready: true, CredentialState: "local"}},
			wire.CodeProviderNotReady, 0,
		},
		"one of two": {
			[]relay.ProviderEntry{
				{ID: "a", Key: "a", CredentialState: "configured", Reason: "no key", Models: models},
				{ID: "b", Key: "b", Ready: true, CredentialState: "configured", Models: models},
			}, "", 1,
		},
	} {
		t.Run("RH16 "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(cfg *relay.Config) { cfg.Providers = c.providers })
			m, err := r.host.Catalog(ctx, relaytest.Challenge)
			must(t, err)
			equal(t, "published", len(m.Catalog.Providers), c.published)
			_, err = r.authorized().Catalog(ctx, relaytest.Challenge)
			wantCode(t, err, c.code)
			if c.code != "" {
				equal(t, "code in the message", m.Error.Code, c.code)
				wantCode(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)), c.code)
			}
			equal(t, "routes", len(m.Routes), len(slices.DeleteFunc(slices.Clone(c.providers),
				func(p relay.ProviderEntry) bool { return len(p.Models) == 0 })))
			for _, route := range m.Routes {
				equal(t, "reason", route.Ready, route.Reason == "" && route.ModelProvider != "" && m.Error == nil || route.Ready)
			}
		})
	}
}

func TestRH17_Models(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	catalog := func(t *testing.T, p relay.ProviderEntry) (wire.Catalog, error) {
		t.Helper()
		p.Ready, p.CredentialState = true, wire.CredentialConfigured
		r := newRig(t, func(cfg *relay.Config) { cfg.Providers = []relay.ProviderEntry{p} })
		return r.authorized().Catalog(ctx, relaytest.Challenge)
	}
	t.Run("RH17 safe, sorted, once", func(t *testing.T) {
		t.Parallel()
		c, err := catalog(t, relay.ProviderEntry{ID: "a", Key: "k", Models: []relay.ModelEntry{
			{ID: "zeta"}, {ID: "Alpha"}, {ID: "sk-secret"}, {ID: "alpha", ImageInput: wire.Supported}, {ID: "alpha"}, {ID: "llama3:8"},
		}})
		must(t, err)
		var names []string
		for _, m := range c.Providers[0].Models {
			names = append(names, m.ID)
		}
		equal(t, "models", strings.Join(names, " "), "Alpha alpha zeta")
		equal(t, "default", c.Providers[0].DefaultModel, "Alpha")
		equal(t, "first entry of a name", c.Providers[0].Models[1].ImageInput, wire.Supported)
		equal(t, "missing fact", c.Providers[0].Models[0].ImageInput, wire.Unknown)
	})
	t.Run("RH17 the requested default", func(t *testing.T) {
		t.Parallel()
		c, err := catalog(t, relay.ProviderEntry{ID: "a", Key: "k", Default: "n", Models: []relay.ModelEntry{{ID: "m"}, {ID: "n"}}})
		must(t, err)
		equal(t, "default", c.Providers[0].DefaultModel, "n")
	})
	t.Run("RH17 no safe model", func(t *testing.T) {
		t.Parallel()
		_, err := catalog(t, relay.ProviderEntry{ID: "a", Key: "k", Models: []relay.ModelEntry{{ID: "sk-secret"}}})
		wantCode(t, err, wire.CodeCatalogEmpty)
	})
	t.Run("RH17 an unsafe provider id is not repeated", func(t *testing.T) {
		t.Parallel()
		_, err := catalog(t, relay.ProviderEntry{ID: "sk-secret", Key: "k", Models: []relay.ModelEntry{{ID: "m"}}})
		if err == nil || strings.Contains(err.Error(), "sk-secret") {
			t.Fatalf("error is %v", err)
		}
	})
	t.Run("RH17 too many models", func(t *testing.T) {
		t.Parallel()
		models := make([]relay.ModelEntry, 10_001)
		for i := range models {
			models[i].ID = "m" + relaytest.TurnID(i)[11:]
		}
		_, err := catalog(t, relay.ProviderEntry{ID: "a", Key: "k", Models: models})
		wantCode(t, err, wire.CodeCatalogEmpty)
	})
	t.Run("RH17 a custom provider's facts are unknown", func(t *testing.T) {
		t.Parallel()
		c, err := catalog(t, relay.ProviderEntry{ID: "a", Key: "k", Custom: true, Models: []relay.ModelEntry{
			{ID: "m", ImageInput: wire.Supported, Reasoning: wire.Supported, ReasoningLevels: []string{"low"}, ReasoningSource: "catalog"},
		}})
		must(t, err)
		m := c.Providers[0].Models[0]
		equal(t, "images", m.ImageInput, wire.Unknown)
		equal(t, "levels", len(m.ReasoningEffortLevels), 0)
		if m.ReasoningEffortSource != nil {
			t.Fatal("a source")
		}
	})
	t.Run("RH17 levels are canonical, off left out", func(t *testing.T) {
		t.Parallel()
		c, err := catalog(t, relay.ProviderEntry{ID: "a", Key: "k", Models: []relay.ModelEntry{
			{ID: "m", ReasoningLevels: []string{"off", "Light", "low", "bogus", "max"}},
		}})
		must(t, err)
		equal(t, "levels", strings.Join(c.Providers[0].Models[0].ReasoningEffortLevels, " "), "low max")
	})
}

func TestRH18_TheCatalogHoldsNoSecretOrAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m, err := r.host.Catalog(context.Background(), relaytest.Challenge)
	must(t, err)
	raw, err := json.Marshal(m)
	must(t, err)
	for _, word := range []string{"baseUrl", "base_url", "endpoint", "apiKey", "http", r.dir} {
		if strings.Contains(string(raw), word) {
			t.Fatalf("the catalog holds %q", word)
		}
	}
}

func TestRoutesTellReadinessAndCooling(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	r := newRig(t, func(c *relay.Config) {
		c.Now = func() time.Time { return now }
		c.Cooling = func(key, model string) time.Time {
			if key == relaytest.Provider && model == relaytest.Model {
				return now.Add(1500 * time.Millisecond)
			}
			return now.Add(-time.Second)
		}
		c.Providers = append(c.Providers, relay.ProviderEntry{
			ID: "other", Key: "other", DisplayName: "Other", Reason: "its key is missing",
			Models: []relay.ModelEntry{{ID: "m"}},
		})
	})
	m, err := r.host.Catalog(context.Background(), relaytest.Challenge)
	must(t, err)
	equal(t, "routes", len(m.Routes), 3)
	a, b, other := m.Routes[0], m.Routes[1], m.Routes[2]
	equal(t, "cooling route", a.AvailableAt, "2026-05-01T10:00:01.500Z")
	equal(t, "preset", a.Default, true)
	equal(t, "family", a.Family, "family")
	equal(t, "cool route", b.AvailableAt, "")
	equal(t, "family by default", b.Family, relaytest.Provider)
	equal(t, "ready", b.Ready, true)
	equal(t, "not ready", other.Ready, false)
	equal(t, "reason", other.Reason, "its key is missing")

	told := make(chan struct{}, 1)
	stop := r.host.Watch(func() { told <- struct{}{} })
	r.host.NotifyRoutes()
	<-told
	stop()
}

func TestRH22_RouteCheck(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, func(c *relay.Config) {
		c.Providers = append(c.Providers, relay.ProviderEntry{
			ID: "second", Key: "second-key", Ready: true, CredentialState: wire.CredentialLocal,
			Models: []relay.ModelEntry{{ID: "model-s"}},
		})
	})
	s := r.authorized()
	picture := []wire.Image{{Mime: "image/gif", DataBase64: "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}}
	for name, c := range map[string]struct {
		change func(*wire.PromptRequest)
		code   wire.Code
	}{
		"another provider":    {func(p *wire.PromptRequest) { p.ModelProvider = "else" }, wire.CodeRouteNotActive},
		"another provider id": {func(p *wire.PromptRequest) { p.ModelProviderID = "else" }, wire.CodeRouteNotActive},
		"another model":       {func(p *wire.PromptRequest) { p.Model = "else" }, wire.CodeRouteNotActive},
		"auto":                {func(p *wire.PromptRequest) { p.Model = "auto" }, wire.CodeRouteNotActive},
		"pictures where nothing is known": {func(p *wire.PromptRequest) {
			p.Model, p.Images = "model-b", picture
		}, wire.CodeRouteNotActive},
		"output limit where nothing is known": {func(p *wire.PromptRequest) {
			p.Model, p.MaxOutputTokens = "model-b", ptr(uint32(5))
		}, wire.CodeOutputLimitUnsupported},
		"output limit comes first": {func(p *wire.PromptRequest) {
			p.Model, p.MaxOutputTokens = "else", ptr(uint32(5))
		}, wire.CodeOutputLimitUnsupported},
		"model of another provider": {func(p *wire.PromptRequest) { p.Model = "model-s" }, wire.CodeRouteNotActive},
	} {
		t.Run("RH22 "+name, func(t *testing.T) {
			cmd := relaytest.Prompt(1, 1)
			c.change(cmd)
			wantCode(t, s.Apply(ctx, cmd), c.code)
		})
	}
	equal(t, "threads", r.runtime.Threads(), 0)
	t.Run("RH22 any ready provider matches", func(t *testing.T) {
		cmd := relaytest.Prompt(1, 1)
		cmd.ModelProvider, cmd.ModelProviderID, cmd.Model = "second", "second-key", "model-s"
		must(t, s.Apply(ctx, cmd))
		r.finish(s, 0)
	})
	t.Run("RH22 pictures and limits where they are supported", func(t *testing.T) {
		cmd := relaytest.Prompt(2, 2)
		cmd.Images, cmd.MaxOutputTokens = picture, ptr(uint32(5))
		must(t, s.Apply(ctx, cmd))
		equal(t, "pictures", len(r.runtime.Started()[1].Images), 1)
	})
	t.Run("RH22 an exact replay is not checked", func(t *testing.T) {
		r.close()
		r.cfg.Providers = nil
		r.open()
		s = r.authorized()
		cmd := relaytest.Prompt(2, 2)
		cmd.Images, cmd.MaxOutputTokens = picture, ptr(uint32(5))
		must(t, s.Apply(ctx, cmd))
		wantCode(t, s.Apply(ctx, relaytest.Prompt(3, 3)), wire.CodeProviderNotReady)
	})
}

func TestHostBehaviourOfCommandShape(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		change func(*wire.PromptRequest)
		code   wire.Code
	}{
		"RH11 tools are refused":            {func(p *wire.PromptRequest) { p.AllowedTools = []string{"shell"} }, wire.CodeCommandInvalid},
		"RH11 another mode is refused":      {func(p *wire.PromptRequest) { p.Mode = "agent" }, wire.CodeCommandInvalid},
		"RH12 a damaged picture is refused": {func(p *wire.PromptRequest) { p.Images = []wire.Image{{Mime: "image/png", DataBase64: "AAAA"}} }, wire.CodeImageInvalid},
		"RH13 an unknown effort is refused": {func(p *wire.PromptRequest) { p.ReasoningEffort = ptr("extreme") }, wire.CodeReasoningInvalid},
		"RH19 an unsafe model is refused":   {func(p *wire.PromptRequest) { p.Model = "host:8080/m" }, wire.CodeCommandInvalid},
		"RH20 an unsafe route is refused":   {func(p *wire.PromptRequest) { p.ModelProvider = "a/b" }, wire.CodeCommandInvalid},
		"RH21 a name like a key is refused": {func(p *wire.PromptRequest) { p.ModelProviderID = "ghp_token" }, wire.CodeCommandInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cmd := relaytest.Prompt(1, 1)
			c.change(cmd)
			wantCode(t, r.authorized().Apply(ctx, cmd), c.code)
			equal(t, "threads", r.runtime.Threads(), 0)
		})
	}
	t.Run("RH14 an empty list of pictures is the same request", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		same := relaytest.Prompt(1, 1)
		same.Images = []wire.Image{}
		must(t, s.Apply(ctx, same))
		r.finish(s, 0)
		effort := relaytest.Prompt(1, 1)
		effort.ReasoningEffort = ptr("high")
		wantCode(t, s.Apply(ctx, effort), wire.CodeTurnMismatch)
	})
}
