package socket

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Patch is one change to a view of the dashboard: HTML made by the components of
// the page itself. Target is the id of an element, Op one of replace, append,
// remove.
type Patch struct {
	Target string `json:"target"`
	Op     string `json:"op"`
	HTML   string `json:"html,omitempty"`
}

// AdminViews renders the dashboard. Render gives all patches that bring a page to
// the state of now, each target once; sessions send on those that changed, and
// remove the targets that are no longer among them. Errors: not_found for an
// unknown view, forbidden.
type AdminViews interface {
	Render(ctx context.Context, actor gateway.Actor, view string, filter gateway.Page) ([]Patch, error)
}

type adminFrame struct {
	Head
	View   string        `json:"view" validate:"required,oneof=bindings turns queue hosts routes usage connections audit"`
	Filter *gateway.Page `json:"filter,omitempty" validate:"omitempty"`
}

// adminPatch is the push admin.patch.
type adminPatch struct {
	Type string `json:"type"`
	View string `json:"view"`
	Patch
}

// adminFollow keeps the views of one session up to date. Its goroutine lives from the
// first admin.follow to the end of the session.
type adminFollow struct {
	s      *session
	cancel func() // the subscription of the bus
	dirty  chan struct{}
	quit   chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	views map[string]*adminView
}

// adminView is one followed view and what was sent of it, by target.
type adminView struct {
	filter gateway.Page
	sent   map[string]Patch
}

// followAdmin is admin.follow. A view that is followed already is followed with
// the new filter.
func (s *session) followAdmin(ctx context.Context, f *adminFrame) (any, error) {
	if s.actor.Role != gateway.RoleAdmin || !s.actor.May(gateway.ScopeAdmin) {
		return nil, wire.NewError(wire.CodeForbidden, "Only admins may follow the dashboard.")
	}
	view := &adminView{}
	if f.Filter != nil {
		view.filter = *f.Filter
	}
	// A change that comes while the view is read is rendered after it: the follower is
	// subscribed by now, and cannot render before it knows the view.
	follow := s.adminFollow()
	follow.mu.Lock()
	defer follow.mu.Unlock()
	patches, err := s.srv.cfg.Admin.Render(ctx, s.actor, f.View, view.filter)
	if err != nil {
		return nil, err
	}
	s.push(s.reply(f.ID, struct {
		View string `json:"view"`
	}{f.View}))
	follow.views[f.View] = view
	s.patch(f.View, view, patches)
	return sent{}, nil
}

// adminFollow gives the session's follower; the first call starts it. Only the
// worker calls it.
func (s *session) adminFollow() *adminFollow {
	s.mu.Lock()
	a := s.follow
	s.mu.Unlock()
	if a != nil {
		return a
	}
	a = &adminFollow{
		s: s, views: make(map[string]*adminView),
		dirty: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	a.cancel = s.srv.cfg.Bus.Subscribe(gateway.AdminTopic(s.actor.OrgID), func(gateway.Push) {
		select {
		case a.dirty <- struct{}{}:
		default:
		}
	})
	s.mu.Lock()
	s.follow = a
	s.mu.Unlock()
	s.srv.wg.Go(a.run)
	return a
}

// byTime tells of a view that it changes without anybody telling: hosts fall silent.
func byTime(view string) bool { return view == "hosts" || view == "routes" }

// run renders after a change, and then rests; from time to time it looks at the views
// whose changes nobody tells.
func (a *adminFollow) run() {
	defer close(a.done)
	rest := time.NewTimer(0)
	defer rest.Stop()
	look := time.NewTicker(a.s.srv.limits.AdminLook)
	defer look.Stop()
	for {
		select {
		case <-a.quit:
			return
		case <-rest.C:
		}
		select {
		case <-a.quit:
			return
		case <-a.dirty:
			a.render(func(string) bool { return true })
		case <-look.C:
			a.render(byTime)
		}
		rest.Reset(a.s.srv.limits.AdminEvery)
	}
}

func (a *adminFollow) stop() {
	a.cancel()
	close(a.quit)
	<-a.done
}

func (a *adminFollow) render(which func(view string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, view := range a.views {
		if !which(name) {
			continue
		}
		a.s.run(func(ctx context.Context) {
			patches, err := a.s.srv.cfg.Admin.Render(ctx, a.s.actor, name, view.filter)
			if err != nil {
				a.s.log.WarnContext(ctx, "socket: a view was not rendered", "view", name, "error", err)
				return
			}
			a.s.patch(name, view, patches)
		})
	}
}

// patch sends what of a view changed since it was sent last.
func (s *session) patch(name string, view *adminView, patches []Patch) {
	next := make(map[string]Patch, len(patches))
	for _, p := range patches {
		next[p.Target] = p
		if view.sent[p.Target] != p {
			s.push(encode(adminPatch{Type: "admin.patch", View: name, Patch: p}))
		}
	}
	var gone []string
	for target := range view.sent {
		if _, still := next[target]; !still {
			gone = append(gone, target)
		}
	}
	slices.SortFunc(gone, strings.Compare)
	for _, target := range gone {
		s.push(encode(adminPatch{Type: "admin.patch", View: name, Patch: Patch{Target: target, Op: "remove"}}))
	}
	view.sent = next
}
