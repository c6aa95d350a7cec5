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
	// work is the context of the drivers; it ends with the link, or by halt before it.
	work      context.Context
	halt      context.CancelFunc
	since     time.Time
	challenge string
	steers    bool // the link carries steers
	// turned is signalled when an admin has changed whether the host is to drain.
	turned chan struct{}
	tasks  sync.WaitGroup
	// ended is closed when the link and its drivers have ended and the host counts
	// as away.
	ended chan struct{}

	// Guarded by Registry.mu.
	stopped bool
	// muted is set for good when nothing of the host is to be taken in any more.
	muted    bool
	expelled error // why this end gave the link up, nil if it did not
	orderly  bool
	draining bool // the host drains by its own wish
	asked    bool // the host was told to drain, and not yet that it need not any more
	begun    bool // the runs that were open when the host linked are driven
	runs     map[string]*driver
	// owing is what the host still holds of runs from earlier links; their next drivers
	// see to it.
	owing map[string]wire.Owing
	// controls are the runs of control planes; see Control.
	controls map[string]*controlRun
	room     room
	routes   []wire.Route
}

// newSession is called with Registry.mu held.
func newSession(ctx context.Context, r *Registry, h *host, cancel context.CancelCauseFunc, opened *link.Session) *session {
	s := &session{
		reg: r, host: h, link: opened, cancel: cancel, since: r.now(),
		challenge: wire.NewChallenge(), steers: slices.Contains(opened.Capabilities(), wire.CapabilitySteer),
		turned: make(chan struct{}, 1), ended: make(chan struct{}),
		runs: map[string]*driver{}, owing: map[string]wire.Owing{}, controls: map[string]*controlRun{},
	}
	s.work, s.halt = context.WithCancel(ctx)
	return s
}

func (s *session) serve(ctx context.Context) error {
	hello := s.link.Hello()
	s.reg.log.Info("hosts: linked", "host", s.host.ID, "name", hello.Name, "version", hello.Version)
	s.reg.catalogs.HostOnline(s.host.ID, s.link.Capabilities(), generations(hello))
	s.tasks.Go(func() { s.begin(s.work) })
	s.tasks.Go(func() { s.tellDrain(s.work) })
	return s.finish(s.link.Serve(ctx, s))
}

// mute has nothing of the host taken in from now on, except what is being taken in
// at this moment; its drivers end.
func (s *session) mute() {
	s.reg.mu.Lock()
	s.muted = true
	s.reg.mu.Unlock()
	s.halt()
}

// expel ends the link from this side, as endingFor says of cause; ended is closed
// soon after. Of several causes the first counts.
func (s *session) expel(cause error) {
	s.mute()
	s.reg.mu.Lock()
	if s.expelled == nil {
		s.expelled = cause
	}
	cause = s.expelled
	s.reg.mu.Unlock()
	_ = s.link.End(endingFor(cause))
	s.cancel(cause)
}

// begin asks for the catalog and drives every open run.
func (s *session) begin(ctx context.Context) {
	if s.link.RequestCatalog(ctx, s.challenge) != nil {
		return // the link has ended, and its reader says why
	}
	var pause backoff
	for {
		runs, owing, err := s.open(ctx)
		if err == nil {
			s.reg.mu.Lock()
			defer s.reg.mu.Unlock()
			s.owing = owing
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

// open gives the runs that are driven from the start of the link, and what the host
// says that it owes of them. A run that it names is driven only if it is its own: the
// name alone gives no right to it (SQ41).
func (s *session) open(ctx context.Context) (runs []string, owing map[string]wire.Owing, err error) {
	if runs, err = s.reg.ledger.OpenRuns(ctx, s.host.ID); err != nil {
		return nil, nil, err
	}
	owing = map[string]wire.Owing{}
	for _, o := range s.link.Hello().Owing {
		hostID, _, err := s.reg.ledger.HostOf(ctx, o.RunID)
		switch {
		case wire.CodeOf(err) == wire.CodeNotFound:
			continue // a control plane's
		case err != nil:
			return nil, nil, err
		case hostID != s.host.ID:
			s.reg.log.Warn("hosts: a host names a run of another one", "host", s.host.ID, "run", o.RunID)
			continue
		}
		owing[o.RunID] = o
		runs = append(runs, o.RunID)
	}
	return runs, owing, nil
}

// finish waits for the drivers, hands the host back as away and tells why the link
// ended.
func (s *session) finish(cause error) error {
	s.halt()
	s.cancel(cause)
	r := s.reg
	r.mu.Lock()
	s.stopped, s.muted = true, true
	if s.expelled != nil {
		cause = s.expelled
	}
	r.mu.Unlock()
	s.tasks.Wait()
	s.loseControls()
	r.catalogs.HostOffline(s.host.ID)

	r.mu.Lock()
	defer r.mu.Unlock()
	h := s.host
	h.live = nil
	h.last = past{
		hello: s.link.Hello(), ended: r.now(), heard: s.link.Heard(), orderly: s.orderly, routes: len(s.routes),
		fault: s.faultOf(cause),
	}
	if s.draining && !h.revoked {
		r.catalogs.HostKnown(h.place())
	}
	if !r.closed && !h.revoked && !errors.Is(cause, ErrSuperseded) {
		r.reportAway(h, s.link.Heard())
	}
	close(s.ended)
	return cause
}

// faultOf says for admins why a link ended, "" for one that ended in good order. It
// is called with Registry.mu held.
func (s *session) faultOf(cause error) string {
	if s.orderly || errors.Is(cause, ErrSuperseded) || errors.Is(cause, ErrClosed) || errors.Is(cause, ErrRevoked) ||
		errors.Is(cause, context.Canceled) {
		return ""
	}
	return wire.ShownText(cause.Error())
}

// drive starts or wakes the driver of a run; resumed as in driver. It is called
// with Registry.mu held.
func (s *session) drive(runID string, resumed bool) {
	if s.stopped || s.wake(runID) {
		return
	}
	d := newDriver(s, runID, resumed || !s.begun)
	d.owed = s.owing[runID]
	delete(s.owing, runID)
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
	if s.controlled(m.RunID, func(c *controlRun) { c.attached(m) }) {
		return
	}
	s.deliver(m.RunID, func(in *inbox) {
		in.attached, in.known, in.deaf, in.refused = true, m.RuntimeCursor, false, nil
	})
}

func (s *session) Refused(m wire.Refused) {
	if m.Error == nil {
		m.Error = wire.NewError(wire.CodeInternal, "The host gave no reason.").Body()
	}
	if s.controlled(m.RunID, func(c *controlRun) { c.refused(m) }) {
		return
	}
	cause := reported(m.Error)
	s.deliver(m.RunID, func(in *inbox) { in.refused, in.attached, in.deaf = cause, false, true })
}

func (s *session) Ack(m wire.Ack) {
	if s.controlled(m.RunID, func(c *controlRun) { c.acknowledged(m) }) {
		return
	}
	if m.Error != nil {
		m.Error = reported(m.Error)
	}
	s.deliver(m.RunID, func(in *inbox) { in.addAck(m) })
}

func (s *session) Event(m wire.EventMessage) {
	if s.controlled(m.RunID, func(c *controlRun) { c.event(m) }) {
		return
	}
	s.deliver(m.RunID, func(in *inbox) { in.add(m.Envelope) })
}

func (s *session) Receipt(m wire.Receipt) {
	s.deliver(m.RunID, func(in *inbox) { in.receipts = append(in.receipts, m) })
}

func (s *session) Room(m wire.Room) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.update(m)
	s.tellRoom()
}

// tellRoom is called with Registry.mu held.
func (s *session) tellRoom() { s.reg.catalogs.HostRoom(s.host.ID, s.room.left()) }

func (s *session) Offline(m wire.Offline) {
	s.reg.log.Info("hosts: a host goes offline", "host", s.host.ID, "reason", m.Reason)
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.orderly = true
}
