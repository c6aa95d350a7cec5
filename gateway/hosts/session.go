package hosts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// session is one link of a host and the drivers of the runs on it. It is the
// handler of the link: its exported methods run in the link's reader.
type session struct {
	reg    *Registry
	host   *host
	link   *link.Session
	cancel context.CancelCauseFunc
	// work is the context of the drivers; it ends with the link.
	work      context.Context
	since     time.Time
	challenge string
	steers    bool // the link carries steers
	tasks     sync.WaitGroup
	// ended is closed when the link and its drivers have ended and the host counts
	// as away.
	ended chan struct{}

	// Guarded by Registry.mu.
	stopped bool
	orderly bool
	begun   bool // the runs that were open when the host linked are driven
	runs    map[string]*driver
	room    room
	routes  []wire.Route
}

func newSession(ctx context.Context, r *Registry, h *host, cancel context.CancelCauseFunc, opened *link.Session) *session {
	return &session{
		reg: r, host: h, link: opened, cancel: cancel, work: ctx, since: r.now(),
		challenge: wire.NewChallenge(), steers: slices.Contains(opened.Capabilities(), wire.CapabilitySteer),
		ended: make(chan struct{}), runs: map[string]*driver{},
	}
}

func (s *session) serve(ctx context.Context) error {
	s.reg.log.Info("hosts: linked", "host", s.host.ID, "name", s.link.Hello().Name, "version", s.link.Hello().Version)
	s.reg.catalogs.HostOnline(s.host.ID, s.link.Capabilities())
	s.tasks.Go(func() { s.begin(ctx) })
	err := s.link.Serve(ctx, s)
	s.finish(err)
	return err
}

// begin asks for the catalog and drives every open run.
func (s *session) begin(ctx context.Context) {
	if s.link.RequestCatalog(ctx, s.challenge) != nil {
		return // the link has ended, and its reader says why
	}
	var pause backoff
	for {
		runs, err := s.reg.ledger.OpenRuns(ctx, s.host.ID)
		if err == nil {
			s.reg.mu.Lock()
			defer s.reg.mu.Unlock()
			for _, runID := range runs {
				s.drive(runID, true)
			}
			s.begun = true
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.reg.log.Error("hosts: the open runs of a host are not known", "host", s.host.ID, "error", err)
		if !sleep(ctx, pause.next()) {
			return
		}
	}
}

// finish waits for the drivers and hands the host back as away.
func (s *session) finish(cause error) {
	s.cancel(cause)
	r := s.reg
	r.mu.Lock()
	s.stopped = true
	r.mu.Unlock()
	s.tasks.Wait()
	r.catalogs.HostOffline(s.host.ID)

	r.mu.Lock()
	defer r.mu.Unlock()
	s.host.live = nil
	s.host.last = past{
		hello: s.link.Hello(), ended: r.now(), heard: s.link.Heard(), orderly: s.orderly, routes: len(s.routes),
	}
	if !r.closed && !errors.Is(cause, ErrSuperseded) {
		r.reportAway(s.host, s.link.Heard())
	}
	close(s.ended)
}

// drive starts or wakes the driver of a run; resumed as in driver. It is called
// with Registry.mu held.
func (s *session) drive(runID string, resumed bool) {
	if s.stopped || s.wake(runID) {
		return
	}
	d := newDriver(s, runID, resumed || !s.begun)
	s.runs[runID] = d
	s.tasks.Go(func() { d.run(s.work) })
}

// wake tells the driver of a run, if there is one, that its work changed. It is
// called with Registry.mu held, so that no driver retires in between.
func (s *session) wake(runID string) bool {
	d := s.runs[runID]
	if d == nil {
		return false
	}
	d.post(func(in *inbox) { in.woken = true })
	return true
}

// remind makes the driver of a run say again why the run waits. It is called with
// Registry.mu held.
func (s *session) remind(runID string) {
	if d := s.runs[runID]; d != nil {
		d.post(func(in *inbox) { in.reminded = true })
	}
}

// retire forgets a driver that has nothing to do, unless it was just given
// something.
func (s *session) retire(d *driver) bool {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	if d.pending() {
		return false
	}
	delete(s.runs, d.runID)
	return true
}

// deliver gives a message to the driver of its run. What comes for a run without a
// driver was never acknowledged, so the host sends it again when it is needed.
func (s *session) deliver(runID string, put func(*inbox)) {
	s.reg.mu.Lock()
	d := s.runs[runID]
	s.reg.mu.Unlock()
	if d != nil {
		d.post(put)
	}
}

func (s *session) Attached(m wire.Attached) {
	s.deliver(m.RunID, func(in *inbox) { in.attached, in.deaf, in.refused = true, false, nil })
}

func (s *session) Refused(m wire.Refused) {
	cause := m.Error
	if cause == nil {
		cause = wire.NewError(wire.CodeInternal, "The host gave no reason.").Body()
	}
	s.deliver(m.RunID, func(in *inbox) { in.refused, in.attached, in.deaf = cause, false, true })
}

func (s *session) Ack(m wire.Ack) {
	s.deliver(m.RunID, func(in *inbox) { in.acks = append(in.acks, m) })
}

func (s *session) Event(m wire.EventMessage) {
	s.deliver(m.RunID, func(in *inbox) { in.add(m.Envelope) })
}

func (s *session) Receipt(m wire.Receipt) {
	s.deliver(m.RunID, func(in *inbox) { in.receipts = append(in.receipts, m) })
}

func (s *session) Room(m wire.Room) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.update(m)
}

func (s *session) Catalog(m wire.CatalogMessage) {
	if m.Challenge != s.challenge {
		s.reg.log.Warn("hosts: a catalog under a challenge that nobody asked with", "host", s.host.ID)
		return
	}
	s.reg.mu.Lock()
	s.routes = m.Routes
	s.reg.mu.Unlock()
	s.reg.catalogs.HostCatalog(s.host.ID, m)
}

func (s *session) Offline(m wire.Offline) {
	s.reg.log.Info("hosts: a host goes offline", "host", s.host.ID, "reason", m.Reason)
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.orderly = true
}

// coolsUntil is when the route of a prompt can be asked again, zero if it can now.
func (s *session) coolsUntil(p prompt) time.Time {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	i := slices.IndexFunc(s.routes, p.servedBy)
	if i < 0 {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, s.routes[i].AvailableAt)
	if err != nil {
		return time.Time{}
	}
	return at
}

func (s *session) admit(d *driver) bool {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	return s.room.admit(d)
}

// insist takes a place for d even if the host says that there is none.
func (s *session) insist(d *driver) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.take(d)
}

// waitForRoom puts a driver whose prompt was refused back into the line.
func (s *session) waitForRoom(d *driver) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.refused(d)
}

// answered gives back the place of a command and lets the next one in.
func (s *session) answered(d *driver) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.leave(d)
}
