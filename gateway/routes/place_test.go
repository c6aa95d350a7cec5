package routes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/routes"
	"github.com/fairlead/fairlead/relay/wire"
)

// yard is a table of linked hosts named by their number, all of which offer m.
type yard struct {
	*routes.Table
	t     *testing.T
	clock time.Time
}

func newYard(t *testing.T, n int, rules ...routes.Rule) *yard {
	t.Helper()
	y := &yard{t: t, clock: noon}
	y.Table = routes.New(routes.Options{Now: func() time.Time { return y.clock }, Placement: rules})
	for i := range n {
		id := fmt.Sprintf("host_%d", i+1)
		y.HostKnown(gateway.HostPlace{HostID: id, TargetRef: id})
		y.HostOnline(id, nil, []int{1, 2})
		y.HostCatalog(id, wire.CatalogMessage{Routes: []wire.Route{route("a", "m")}})
	}
	return y
}

// label gives a host labels, or lets it drain.
func (y *yard) label(hostID string, draining bool, labels ...string) {
	y.HostKnown(gateway.HostPlace{HostID: hostID, TargetRef: hostID, Labels: labels, Draining: draining})
}

// at gives the host that a turn of m goes to, or the code of the refusal.
func (y *yard) at(threadAt string) string { return y.of(actor, threadAt, 2) }

func (y *yard) of(a gateway.Actor, threadAt string, generation int) string {
	y.t.Helper()
	r, err := y.Resolve(y.t.Context(), a, "m", gateway.Placement{HostID: threadAt, Generation: generation})
	if err != nil {
		return string(wire.CodeOf(err))
	}
	return r.HostID
}

func (y *yard) want(threadAt, hostID string) {
	y.t.Helper()
	if got := y.at(threadAt); got != hostID {
		y.t.Errorf("a turn of a thread at %q goes to %q, want %q", threadAt, got, hostID)
	}
}

func TestPlacement_MostRoomThenTheOrder(t *testing.T) {
	t.Parallel()
	y := newYard(t, 3)
	for range 3 {
		y.want("", "host_1") // nobody says what room there is
	}
	y.HostRoom("host_1", 1)
	y.HostRoom("host_2", 3)
	y.HostRoom("host_3", 3)
	// Of those sent at once, before any host says anything new, none gets all.
	var got []string
	for range 6 {
		got = append(got, y.at(""))
	}
	if want := []string{"host_2", "host_3", "host_2", "host_3", "host_1", "host_2"}; !slices.Equal(got, want) {
		t.Errorf("six at once go to %q, want %q", got, want)
	}
	y.HostRoom("host_2", -4) // five wait there
	y.HostRoom("host_3", 0)
	y.HostRoom("host_1", -1)
	y.want("", "host_3")
	y.HostOffline("host_3")
	y.want("", "host_1")
}

func TestPlacement_AThreadStaysAtItsHost(t *testing.T) {
	t.Parallel()
	y := newYard(t, 2)
	y.HostRoom("host_1", 8)
	y.HostRoom("host_2", 0)
	y.want("host_2", "host_2")
	y.want("a host that is gone", "host_1")
	y.HostCatalog("host_2", wire.CatalogMessage{Routes: []wire.Route{route("a", "m", cooling)}})
	y.want("host_2", "host_2")
	y.HostCatalog("host_2", wire.CatalogMessage{Routes: []wire.Route{route("a", "m", unready)}})
	y.want("host_2", "host_1")
	y.HostCatalog("host_2", wire.CatalogMessage{Routes: []wire.Route{route("a", "other")}})
	y.want("host_2", "host_1")
	y.HostCatalog("host_2", wire.CatalogMessage{Routes: []wire.Route{route("b", "m", unready), route("a", "m")}})
	y.want("host_2", "host_2")

	y.HostOffline("host_2")
	y.clock = noon.Add(89 * time.Second)
	y.want("host_2", "host_2")
	y.clock = noon.Add(90 * time.Second)
	y.want("host_2", "host_1")
	y.HostOffline("host_1") // nobody else could serve it
	y.want("", "host_1")
	y.HostOnline("host_2", nil, []int{1, 2})
	y.want("host_2", "host_2")
	y.HostForgotten("host_2")
	y.want("host_2", "host_1")
}

func TestPlacement_ADrainingHostGetsWhatNobodyElseOffers(t *testing.T) {
	t.Parallel()
	y := newYard(t, 2)
	y.label("host_1", true)
	y.want("", "host_2")
	y.want("host_1", "host_2")
	running := gateway.Placement{HostID: "host_1", Running: true}
	if r, err := y.Resolve(t.Context(), actor, "m", running); err != nil || r.HostID != "host_1" {
		t.Errorf("the host of a running turn: %+v, %v", r, err)
	}
	y.HostOffline("host_1") // it drained, and left
	y.want("host_1", "host_2")
	y.HostOnline("host_1", nil, []int{1, 2})
	y.HostOffline("host_2")
	y.want("", "host_1")
	models, err := y.Models(t.Context(), actor)
	if err != nil || len(models) != 1 || models[0].Ready || models[0].Reason != routes.ReasonHostDraining {
		t.Errorf("models %+v, %v", models, err)
	}
	y.label("host_1", false)
	y.want("", "host_1")
}

// TestAD78_APromptGoesToAHostThatUnderstandsIt, where there is one.
func TestAD78_APromptGoesToAHostThatUnderstandsIt(t *testing.T) {
	t.Parallel()
	y := newYard(t, 2)
	y.HostOnline("host_1", nil, []int{1})
	y.want("", "host_2")
	y.want("host_1", "host_2")
	if got := y.of(actor, "", 3); got != "host_1" {
		t.Errorf("what nobody understands waits at %q", got)
	}
	y.HostOnline("host_2", nil, []int{1, 2, 3})
	if got := y.of(actor, "", 3); got != "host_2" {
		t.Errorf("a later generation goes to %q", got)
	}
	y.HostOffline("host_2")
	y.want("", "host_1") // it waits there, and its owner sees why
}

func TestPlacement_Rules(t *testing.T) {
	t.Parallel()
	y := newYard(t, 3,
		routes.Rule{Model: "m", Require: []string{"eu"}},
		routes.Rule{Org: "org_gpu", Require: []string{"gpu"}},
		routes.Rule{Prefer: []string{"fast", "big"}},
		routes.Rule{Model: "another", Require: []string{"nowhere"}},
	)
	org := gateway.Actor{OrgID: "org_gpu"}
	if got := y.at(""); got != string(gateway.CodeModelUnknown) {
		t.Errorf("no host has the label: %q", got)
	}
	y.label("host_2", false, "eu")
	y.label("host_3", false, "eu", "fast")
	y.want("", "host_3")
	y.label("host_2", false, "eu", "fast", "big")
	y.want("", "host_2")
	y.want("host_3", "host_3") // a thread stays
	y.want("host_1", "host_2") // not where it may not be
	if got := y.of(org, "", 2); got != string(gateway.CodeModelUnknown) {
		t.Errorf("an org with a rule of its own: %q", got)
	}
	if models, err := y.Models(t.Context(), org); err != nil || len(models) != 0 {
		t.Errorf("it is shown %+v, %v", models, err)
	}
	y.label("host_3", false, "eu", "gpu")
	if got := y.of(org, "host_2", 2); got != "host_3" {
		t.Errorf("its thread goes to %q", got)
	}
	y.HostOffline("host_2")
	y.want("", "host_3") // rather than wait for a preferred one
	rows, err := y.AdminRoutes(t.Context(), actor)
	var seen []string
	for _, r := range rows {
		seen = append(seen, r.HostID)
	}
	if err != nil || strings.Join(seen, " ") != "host_1 host_2 host_3" {
		t.Errorf("admins see %q, %v", seen, err)
	}
}

// TestPlacement_AThreadWaitsForItsHostAfterAStart, whose catalog nobody knows yet.
func TestPlacement_AThreadWaitsForItsHostAfterAStart(t *testing.T) {
	t.Parallel()
	y := newYard(t, 1)
	y.label("host_2", false)
	y.want("", "host_1")
	y.want("host_2", string(wire.CodeHostOffline))
	y.label("host_2", true)
	y.want("host_2", "host_1")
	y.label("host_2", false)
	y.clock = noon.Add(30 * time.Second)
	y.want("host_2", "host_1")
	y.clock = noon
	y.HostCatalog("host_2", wire.CatalogMessage{Routes: []wire.Route{route("a", "m")}})
	y.HostOnline("host_2", nil, []int{1, 2})
	y.want("host_2", "host_2")
}
