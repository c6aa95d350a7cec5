package httpd

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/views/admin"
)

// bindingsShown is how many bindings a page of their list shows.
const bindingsShown = 50

func (s *Server) getBindings(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	frame, err := s.frame(r, actor)
	if err != nil {
		return err
	}
	p := admin.Bindings{Frame: frame, Limit: bindingsShown, Filter: filterOf(r)}
	d := s.cfg.Dashboard
	n, err := d.names(r.Context(), actor)
	if err != nil {
		return err
	}
	p.Hosts = hostOptions(n.hostList)
	p.Offset, _ = strconv.Atoi(r.URL.Query().Get("offset"))
	p.Offset = max(p.Offset, 0)
	if p.Filter.ThreadError == "" {
		err = d.fillBindings(r.Context(), actor, n, &p)
	}
	if err != nil {
		return err
	}
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

// filterOf reads what the list is narrowed by; a state that there is none of is none.
func filterOf(r *http.Request) admin.BindingFilter {
	q := r.URL.Query()
	f := admin.BindingFilter{Thread: strings.TrimSpace(q.Get("thread")), Host: q.Get("host"), State: q.Get("state")}
	if f.Thread != "" {
		id, err := uuid.Parse(f.Thread)
		if err != nil {
			f.ThreadError = "This is not the id of a thread."
		} else {
			f.Thread = id.String()
		}
	}
	states := []gateway.BindingState{gateway.BindingOpen, gateway.BindingSettled, gateway.BindingUnanswered}
	if !slices.Contains(states, gateway.BindingState(f.State)) {
		f.State = ""
	}
	return f
}

func (s *Server) getBinding(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	p, err := s.newBindingPage(r, actor)
	if err != nil {
		return err
	}
	p.Notice = s.bindingForms()[r.URL.Query().Get("done")].notice
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) postBinding(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	_, _, refused, err := s.posted(r, actor, s.bindingForms())
	if err != nil && refused == nil {
		return err
	}
	if err == nil {
		s.redirect(w, r, admin.BindingPath(r.PathValue("id"))+"?done="+r.PostForm.Get("do"))
		return nil
	}
	p, pageErr := s.newBindingPage(r, actor)
	if pageErr != nil {
		return errors.Join(err, pageErr)
	}
	p.Form = *refused
	s.render(w, r, formStatus(err), p.View())
	return nil
}

// bindingForms are the forms of the page of one binding. They act on turns, whether or
// not their host is there.
func (s *Server) bindingForms() map[string]form {
	about := func(do func(r *http.Request, actor gateway.Actor, turn gateway.TurnRequest) error) func(*http.Request, gateway.Actor) (string, error) {
		return plain(func(r *http.Request, actor gateway.Actor) error {
			id, err := idOf(r)
			if err != nil {
				return err
			}
			return do(r, actor, gateway.TurnRequest{TurnID: id})
		})
	}
	return map[string]form{
		admin.DoTurnEnd: {"", "The turn is ended.", about(func(r *http.Request, actor gateway.Actor, turn gateway.TurnRequest) error {
			return s.cfg.Dashboard.Turns.AdminEnd(r.Context(), actor, turn)
		})},
		admin.DoTurnRelease: {"", "The thread is open.", about(func(r *http.Request, actor gateway.Actor, turn gateway.TurnRequest) error {
			return s.cfg.Dashboard.Turns.AdminRelease(r.Context(), actor, turn)
		})},
	}
}

func (s *Server) newBindingPage(r *http.Request, actor gateway.Actor) (admin.Binding, error) {
	frame, err := s.frame(r, actor)
	if err != nil {
		return admin.Binding{}, err
	}
	p := admin.Binding{Frame: frame}
	d := s.cfg.Dashboard
	v, err := d.Turns.AdminBinding(r.Context(), actor, r.PathValue("id"))
	if err != nil {
		return p, err
	}
	n, err := d.names(r.Context(), actor)
	if err != nil {
		return p, err
	}
	p.Binding, p.TargetRef, p.SessionID, p.HostGone = d.newBindingRow(v.AdminBinding, n), v.TargetRef, v.SessionID, true
	for _, h := range n.hostList {
		if h.HostID == v.HostID {
			p.Host, p.HostGone = d.newHostRow(h, n), false
		}
	}
	now := time.Now()
	for _, t := range v.Turns {
		p.Reservations = append(p.Reservations, newReservation(t, n, now))
	}
	for _, c := range v.Commands {
		p.Commands = append(p.Commands, admin.CommandRow{
			Seq: c.Seq, Kind: c.Kind, TurnID: c.TurnID, State: string(c.State), Error: string(c.Error), CreatedAt: c.CreatedAt.Time,
		})
	}
	for _, e := range v.Events {
		p.Events = append(p.Events, admin.EventRow{
			SeqID: e.SeqID, Type: string(e.EventType), TurnID: e.TurnID, Size: e.Size, CreatedAt: e.CreatedAt.Time,
		})
	}
	return p, nil
}

func newReservation(t gateway.AdminTurn, n names, now time.Time) admin.Reservation {
	r := admin.Reservation{
		Turn: newTurnRow(t, n), Command: string(t.Command), Delivery: string(t.Delivery),
		Recovering: t.Recovering, RecoverBy: moment(t.RecoverBy),
	}
	r.Overdue = t.Recovering && !now.Before(r.RecoverBy)
	return r
}
