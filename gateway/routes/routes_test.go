package routes_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/routes"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var actor = gateway.Actor{AccountID: "account_1", OrgID: "org_1"}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func route(provider, model string, change ...func(*wire.Route)) wire.Route {
	r := wire.Route{
		ModelProvider: provider, ModelProviderID: provider + "-id", DisplayName: provider + " shown", Model: model,
		Family: provider, Ready: true, ImageInput: wire.Supported, OutputLimit: wire.Unknown, Reasoning: wire.Unsupported,
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func preset(r *wire.Route)  { r.Default = true }
func unready(r *wire.Route) { r.Ready, r.Reason = false, "credential_missing" }
func cooling(r *wire.Route) { r.AvailableAt = noon.Add(time.Minute).Format("2006-01-02T15:04:05.000Z") }

func cooled(r *wire.Route) {
	r.AvailableAt = noon.Add(-time.Minute).Format("2006-01-02T15:04:05.000Z")
}

// table has two hosts, both linked, with the given routes.
func table(t *testing.T, preferred string, first, second []wire.Route) *routes.Table {
	t.Helper()
	tab := routes.New(routes.Options{
		Now: func() time.Time { return noon }, Default: preferred,
		Prices: func(provider, model string) (gateway.Prices, bool) {
			return gateway.Prices{Input: 3, Output: 15}, provider == "a-id" && model == "paid"
		},
	})
	for i, rs := range [][]wire.Route{first, second} {
		id := []string{"host_1", "host_2"}[i]
		tab.HostKnown(gateway.HostPlace{HostID: id, TargetRef: "target_" + id})
		tab.HostOnline(id, []string{wire.CapabilityOutcome}, []int{1, 2})
		tab.HostCatalog(id, wire.CatalogMessage{Routes: rs})
	}
	return tab
}

func resolve(t *testing.T, tab *routes.Table, model string) string {
	t.Helper()
	r, err := tab.Resolve(t.Context(), actor, model, gateway.Placement{})
	if err != nil {
		return string(wire.CodeOf(err))
	}
	if r.TargetRef != "target_"+r.HostID || !slices.Equal(r.Capabilities, []string{wire.CapabilityOutcome}) {
		t.Errorf("route %+v", r)
	}
	return r.HostID + " " + r.ModelProvider + " " + r.Model
}

func TestResolve(t *testing.T) {
	t.Parallel()
	type rs = []wire.Route
	for _, c := range []struct {
		name          string
		preferred     string
		first, second rs
		model, want   string
	}{
		{"by name", "", rs{route("a", "m"), route("a", "n")}, nil, "n", "host_1 a n"},
		{"the first in configured order", "", rs{route("a", "m"), route("b", "m")}, rs{route("c", "m")}, "m", "host_1 a m"},
		{"the first ready one", "", rs{route("a", "m", unready), route("b", "m")}, nil, "m", "host_1 b m"},
		{"the first ready one of another host", "", rs{route("a", "m", unready)}, rs{route("c", "m")}, "m", "host_2 c m"},
		{"a cooling route after one that is not", "", rs{route("a", "m", cooling)}, rs{route("c", "m")}, "m", "host_2 c m"},
		{"a cooling route if there is no other", "", rs{route("a", "m", cooling)}, nil, "m", "host_1 a m"},
		{"a route that has cooled down", "", rs{route("a", "m", cooled)}, rs{route("c", "m")}, "m", "host_1 a m"},
		{"none ready", "", rs{route("a", "m", unready)}, nil, "m", "route_unavailable"},
		{"unknown", "", rs{route("a", "m")}, nil, "x", "model_unknown"},
		{"auto is no model", "", rs{route("a", "m")}, nil, "auto", "model_unknown"},
		{"the default of the settings", "n", rs{route("a", "m", preset), route("a", "n")}, nil, "", "host_1 a n"},
		{"a default of the settings that is not ready", "n", rs{route("a", "m", preset), route("a", "n", unready)}, nil, "", "route_unavailable"},
		{"a default of the settings that is gone", "old", rs{route("a", "m"), route("a", "n", preset)}, nil, "", "host_1 a n"},
		{"the catalog's default", "", rs{route("a", "m"), route("a", "n", preset)}, nil, "", "host_1 a n"},
		{"the catalog's default while it cools down", "", rs{route("a", "m"), route("a", "n", preset, cooling)}, nil, "", "host_1 a n"},
		{"the next default if the first is not ready", "", rs{route("a", "m", preset, unready)}, rs{route("b", "x"), route("b", "y", preset)}, "", "host_2 b y"},
		{"the first ready one without a default", "", rs{route("a", "m", unready), route("a", "n")}, nil, "", "host_1 a n"},
		{"no model ready", "", rs{route("a", "m", unready)}, nil, "", "route_unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := resolve(t, table(t, c.preferred, c.first, c.second), c.model); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestResolve_HostsThatAreAway(t *testing.T) {
	t.Parallel()
	tab := table(t, "", []wire.Route{route("a", "m"), route("a", "n")}, []wire.Route{route("c", "m")})
	tab.HostOffline("host_1")
	if got := resolve(t, tab, "m"); got != "host_2 c m" {
		t.Errorf("with another host linked: %q", got)
	}
	if got := resolve(t, tab, "n"); got != "host_1 a n" {
		t.Errorf("a model of the absent host alone: %q", got)
	}
	if got := resolve(t, tab, ""); got != "host_2 c m" {
		t.Errorf("the default: %q", got)
	}
	tab.HostOffline("host_2")
	if got := resolve(t, tab, "m"); got != "host_1 a m" {
		t.Errorf("with all hosts away: %q", got)
	}
	models, err := tab.Models(t.Context(), actor)
	if err != nil || len(models) != 2 || models[1].Ready || models[1].Reason != routes.ReasonHostOffline {
		t.Errorf("models %+v, %v", models, err)
	}
	tab.HostOnline("host_1", []string{wire.CapabilityOutcome}, nil)
	if got := resolve(t, tab, "m"); got != "host_1 a m" {
		t.Errorf("with the host back: %q", got)
	}
}

func TestResolve_SQ60_NoHost(t *testing.T) {
	t.Parallel()
	tab := routes.New(routes.Options{})
	if got := resolve(t, tab, "m"); got != string(wire.CodeNoHost) {
		t.Errorf("without a host: %q", got)
	}
	tab.HostKnown(gateway.HostPlace{HostID: "host_1", TargetRef: "target_host_1"})
	for _, model := range []string{"m", ""} {
		_, err := tab.Resolve(t.Context(), actor, model, gateway.Placement{})
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != gateway.CodeRouteUnavailable || !e.Retryable {
			t.Errorf("%q before the first catalog: %v", model, err)
		}
	}
	tab.HostCatalog("host_1", wire.CatalogMessage{Error: &wire.ErrorBody{Code: wire.CodeProviderNotReady}})
	if got := resolve(t, tab, "m"); got != string(gateway.CodeModelUnknown) {
		t.Errorf("with an empty catalog: %q", got)
	}
	if got := resolve(t, tab, ""); got != string(gateway.CodeRouteUnavailable) {
		t.Errorf("the default of an empty catalog: %q", got)
	}
}

func TestModels_ListsEachNameOnceInOrder(t *testing.T) {
	t.Parallel()
	tab := table(t, "", []wire.Route{route("a", "m", unready), route("a", "n", cooling)}, []wire.Route{route("c", "m"), route("c", "o", unready)})
	models, err := tab.Models(t.Context(), actor)
	if err != nil {
		t.Fatal(err)
	}
	want := []gateway.Model{
		{ID: "m", Name: "m", Provider: "c shown", Family: "c", Ready: true, Default: true},
		{ID: "n", Name: "n", Provider: "a shown", Family: "a", Ready: true, AvailableAt: "2026-01-02T12:01:00.000Z"},
		{ID: "o", Name: "o", Provider: "c shown", Family: "c", Reason: "credential_missing"},
	}
	for i := range want {
		want[i].Capabilities = gateway.ModelCapabilities{
			ImageInput: wire.Supported, MaxOutputTokens: wire.Unknown, ReasoningEffort: wire.Unsupported, ReasoningEffortLevels: []string{},
		}
	}
	equal := func(a, b gateway.Model) bool {
		return a.ID == b.ID && a.Name == b.Name && a.Provider == b.Provider && a.Family == b.Family && a.Ready == b.Ready &&
			a.Reason == b.Reason && a.AvailableAt == b.AvailableAt && a.Default == b.Default &&
			a.Capabilities.ImageInput == b.Capabilities.ImageInput && a.Capabilities.ReasoningEffortLevels != nil
	}
	if !slices.EqualFunc(models, want, equal) {
		t.Errorf("got  %+v\nwant %+v", models, want)
	}
}

func TestAdminRoutes_ListsEveryRoute(t *testing.T) {
	t.Parallel()
	tab := table(t, "", []wire.Route{route("a", "m", unready), route("a", "n", cooling)}, nil)
	tab.HostCatalog("host_2", wire.CatalogMessage{
		Routes:  []wire.Route{route("c", "m")},
		Catalog: wire.Catalog{Providers: []wire.CatalogProvider{{ID: "c", ModelProviderID: "c-id", CredentialState: wire.CredentialLocal}}},
	})
	tab.HostOffline("host_2")
	rows, err := tab.AdminRoutes(t.Context(), actor)
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	if r := rows[0]; r.Ready || r.Reason != "credential_missing" || r.Credential != "" || r.Default {
		t.Errorf("unready %+v", r)
	}
	if r := rows[1]; !r.Ready || !r.AvailableAt.Equal(noon.Add(time.Minute)) || !r.Default {
		t.Errorf("cooling %+v", r)
	}
	if r := rows[2]; r.Ready || r.Reason != routes.ReasonHostOffline || r.Credential != wire.CredentialLocal || r.ProviderID != "c-id" {
		t.Errorf("away %+v", r)
	}
}

// TestResolve_SQ74_APricedRouteIsMetered: the org pays for what has a price, and
// the owner of the key for all else.
func TestResolve_SQ74_APricedRouteIsMetered(t *testing.T) {
	t.Parallel()
	tab := table(t, "", []wire.Route{route("a", "paid"), route("a", "own")}, []wire.Route{route("b", "paid")})
	paid, err := tab.Resolve(t.Context(), actor, "paid", gateway.Placement{})
	if err != nil || paid.Billing != gateway.BillingMetered || paid.Prices != (gateway.Prices{Input: 3, Output: 15}) {
		t.Errorf("priced route %+v, %v", paid, err)
	}
	own, err := tab.Resolve(t.Context(), actor, "own", gateway.Placement{})
	if err != nil || own.Billing != gateway.BillingOwn || own.Prices != (gateway.Prices{}) {
		t.Errorf("route without a price %+v, %v", own, err)
	}
	tab.HostCatalog("host_1", wire.CatalogMessage{})
	if other, err := tab.Resolve(t.Context(), actor, "paid", gateway.Placement{}); err != nil || other.Billing != gateway.BillingOwn {
		t.Errorf("the model of another provider %+v, %v", other, err)
	}
}
