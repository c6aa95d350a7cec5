package relay

import (
	"context"

	"github.com/fairlead/fairlead/relay/wire"
)

// maxPage bounds one page of a read-out.
const maxPage = 500

// ScopeView is a scope as an operator sees it.
type ScopeView struct {
	ScopeSummary
	Leased   bool // holds its inference lease (RH25)
	Working  bool // one of the host's places is taken by it
	Attached bool
	RunID    string // the authorised run, if the scope is loaded
}

// Scopes pages through the scopes that have an owner, newest first. after is the
// last one of the page before, or the zero ScopeRecord.
func (h *Host) Scopes(ctx context.Context, after ScopeRecord, limit int) ([]ScopeView, error) {
	list, err := h.cfg.Store.ListScopes(ctx, after, page(limit))
	if err != nil {
		return nil, readFault(err)
	}
	out := make([]ScopeView, 0, len(list))
	for _, summary := range list {
		v := ScopeView{ScopeSummary: summary}
		v.Leased, v.Working = h.leases.state(summary.Key)
		h.mu.Lock()
		s := h.scopes[summary.Key]
		h.mu.Unlock()
		if s != nil {
			v.RunID, v.Attached = s.inUse()
		}
		out = append(out, v)
	}
	return out, nil
}

func (s *Scope) inUse() (runID string, attached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		runID = s.run.id
	}
	return runID, s.attached != nil
}

// Bindings pages through a scope's bindings in order of creation, from after an
// ordinal; 0 begins.
func (h *Host) Bindings(ctx context.Context, scopeKey string, afterOrdinal int64, limit int) ([]Binding, error) {
	list, err := h.cfg.Store.ListBindings(ctx, scopeKey, afterOrdinal, page(limit))
	return list, readFault(err)
}

// Reservations pages through a binding's reservations by virtual turn id, from
// after one; "" begins.
func (h *Host) Reservations(ctx context.Context, scopeKey, bindingID, afterTurnID string, limit int) ([]Turn, error) {
	list, err := h.cfg.Store.ListTurns(ctx, scopeKey, bindingID, afterTurnID, page(limit))
	return list, readFault(err)
}

// Binding reads one binding; not_found if there is none.
func (h *Host) Binding(ctx context.Context, scopeKey, bindingID string) (Binding, error) {
	b, ok, err := h.cfg.Store.Binding(ctx, scopeKey, bindingID)
	if err != nil {
		return b, readFault(err)
	}
	if !ok {
		return b, wire.NewError(wire.CodeNotFound, "There is no such binding.")
	}
	return b, nil
}

func page(limit int) int {
	if limit <= 0 || limit > maxPage {
		return maxPage
	}
	return limit
}
