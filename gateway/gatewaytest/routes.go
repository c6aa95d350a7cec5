package gatewaytest

import (
	"context"
	"sync"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Routes is a gateway.Routes that is set by hand.
type Routes struct {
	mu     sync.Mutex
	routes []gateway.Route
	err    error
	asked  []gateway.Placement
}

// NewRoutes makes routes that serve the given models at one host, in this order;
// none means that no host is configured.
func NewRoutes(hostID string, models ...string) *Routes {
	r := &Routes{}
	r.Use(hostID, models...)
	return r
}

// Use replaces the routes.
func (r *Routes) Use(hostID string, models ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes = nil
	for _, m := range models {
		r.routes = append(r.routes, gateway.Route{
			HostID: hostID, TargetRef: "target_" + hostID,
			Route: wire.Route{
				ModelProvider: "test", ModelProviderID: "test-" + m, DisplayName: "Test", Model: m, Family: "test", Ready: true,
				OutputLimit: wire.Supported, Reasoning: wire.Unknown, ImageInput: wire.Unknown,
			},
		})
	}
}

// Change changes all routes.
func (r *Routes) Change(change func(*gateway.Route)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.routes {
		change(&r.routes[i])
	}
}

// Fail makes Resolve answer with err; nil ends that.
func (r *Routes) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Models lists the models.
func (r *Routes) Models(context.Context, gateway.Actor) ([]gateway.Model, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []gateway.Model
	for i, route := range r.routes {
		list = append(list, gateway.Model{ID: route.Model, Name: route.Model, Ready: true, Default: i == 0})
	}
	return list, nil
}

// Asked gives what Resolve was told of where threads are, in order, and forgets it.
func (r *Routes) Asked() []gateway.Placement {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// Resolve gives the route of a model, the first one for "".
func (r *Routes) Resolve(_ context.Context, _ gateway.Actor, model string, at gateway.Placement) (gateway.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, at)
	switch {
	case r.err != nil:
		return gateway.Route{}, r.err
	case len(r.routes) == 0:
		return gateway.Route{}, wire.NewError(wire.CodeNoHost, "No host is configured.")
	case model == "":
		return r.routes[0], nil
	}
	for _, route := range r.routes {
		if route.Model == model {
			return route, nil
		}
	}
	return gateway.Route{}, wire.NewError(gateway.CodeModelUnknown, "There is no such model.")
}

var _ gateway.Routes = (*Routes)(nil)
