package hosts

import (
	"context"
	"sync"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Bounds of what a host was sent for a run and has not answered. With the cursors and
// detaches in between they stay below what a host takes.
const (
	maxUnanswered = 64
	maxAwaiting   = 16
)

// controlRun is a run of a control plane on one link. It outlives its owner only
// while somebody uses it.
type controlRun struct {
	s  *session
	id string
	// turn holds one token: the right to send for the run, so that what goes to the
	// host is in the order in which owners changed.
	turn chan struct{}
	// telling is held while the owner is told something. It comes before Registry.mu.
	telling sync.Mutex

	// Guarded by Registry.mu.
	owner *Control
	users int // who looks at it now
	// awaiting counts the attaches that the host has not answered: until then what
	// comes is of an attachment that was replaced.
	awaiting int
	// unanswered counts the commands that the host has not answered.
	unanswered int
}

// enter finds the run of an attach on the link of its target.
func (c *Control) enter(a wire.Attach) (*controlRun, error) {
	r := c.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.targeted(a.TargetRef)
	if h == nil {
		return nil, wire.NewError(wire.CodeNotFound, "There is no relay host with this target.")
	}
	s := h.live
	if s == nil || s.muted || s.stopped {
		return nil, offline()
	}
	if s.runs[a.RunID] != nil {
		return nil, wire.NewError(wire.CodeForbidden, "This run is not open to control planes.")
	}
	if other := c.runs[a.RunID]; other != nil && other.s.host != h {
		return nil, wire.NewError(wire.CodeForbidden, "This run is attached at another host.")
	}
	run := s.controls[a.RunID]
	if run == nil {
		run = &controlRun{s: s, id: a.RunID, turn: make(chan struct{}, 1)}
		s.controls[a.RunID] = run
	}
	run.users++
	return run, nil
}

// targeted is called with mu held.
func (r *Registry) targeted(targetRef string) *host {
	for _, h := range r.hosts {
		if h.TargetRef == targetRef {
			return h
		}
	}
	return nil
}

// exit ends a use of the run.
func (run *controlRun) exit() {
	run.s.reg.mu.Lock()
	defer run.s.reg.mu.Unlock()
	run.users--
	run.drop()
}

// drop forgets a run that nobody holds or looks at, once the host has answered every
// attach: an answer must not be taken for one of a later attachment. It is called with Registry.mu
// held.
func (run *controlRun) drop() {
	if run.owner == nil && run.users == 0 && run.awaiting == 0 && run.s.controls[run.id] == run {
		delete(run.s.controls, run.id)
	}
}

func (run *controlRun) lock(ctx context.Context) error {
	select {
	case run.turn <- struct{}{}:
		return nil
	case <-run.s.work.Done():
		return offline()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (run *controlRun) unlock() { <-run.turn }

// take makes c the owner of a run. An older connection of the same account is told
// that it was superseded.
func (c *Control) take(run *controlRun) error {
	run.telling.Lock()
	defer run.telling.Unlock()
	older, err := c.own(run)
	if err == nil && older != nil {
		cause := wire.NewError(gateway.CodeSuperseded, "A newer connection of this account attached the run.")
		older.events.Refused(wire.Refused{RunID: run.id, Error: cause.Body()})
	}
	return err
}

// own gives the owner before, nil if it was c or nobody.
func (c *Control) own(run *controlRun) (older *Control, err error) {
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	switch {
	case c.closed || run.s.muted || run.s.stopped:
		return nil, offline()
	case run.owner != nil && run.owner.holder != c.holder:
		return nil, wire.NewError(wire.CodeForbidden, "This run is attached by another account.")
	case run.awaiting >= maxAwaiting:
		return nil, tooMuch()
	}
	if older = run.owner; older == c {
		older = nil
	} else if older != nil {
		delete(older.runs, run.id)
	}
	run.owner, c.runs[run.id] = c, run
	run.awaiting++
	return older, nil
}

// unasked takes back an attach that was not sent: its caller gave up before, or the link
// ended. The host answers none.
func (run *controlRun) unasked(c *Control) {
	run.s.reg.mu.Lock()
	defer run.s.reg.mu.Unlock()
	run.awaiting = max(run.awaiting-1, 0)
	run.disown(c)
}

// disown is called with Registry.mu held.
func (run *controlRun) disown(c *Control) {
	if c.runs[run.id] == run {
		delete(c.runs, run.id)
	}
	if run.owner == c {
		run.owner = nil
	}
	run.drop()
}

func (run *controlRun) ownedBy(c *Control) bool {
	c.reg.mu.Lock()
	defer c.reg.mu.Unlock()
	return run.owner == c
}

// controlled gives a message to a run of a control plane; false if it is none.
func (s *session) controlled(runID string, give func(*controlRun)) bool {
	s.reg.mu.Lock()
	run := s.controls[runID]
	if run != nil {
		run.users++
	}
	muted := s.muted
	s.reg.mu.Unlock()
	if run == nil {
		return false
	}
	defer run.exit()
	if !muted {
		give(run)
	}
	return true
}

// tell tells the owner something, if there is one.
func (run *controlRun) tell(say func(gateway.ControlEvents)) {
	run.telling.Lock()
	defer run.telling.Unlock()
	run.s.reg.mu.Lock()
	owner := run.owner
	run.s.reg.mu.Unlock()
	if owner != nil {
		say(owner.events)
	}
}

// answered counts an answer to an attach and gives whom it is for, nil if that attach
// was replaced or given up. Like the methods below it holds or needs telling from the
// look at the run until the owner was told, so that no new owner comes between.
func (run *controlRun) answered() *Control {
	run.s.reg.mu.Lock()
	defer run.s.reg.mu.Unlock()
	run.awaiting, run.unanswered = max(run.awaiting-1, 0), 0 // the host takes the messages of a run in order
	if run.awaiting > 0 {
		return nil
	}
	return run.owner
}

// ask counts a command, if one more may be sent.
func (run *controlRun) ask() bool {
	run.s.reg.mu.Lock()
	defer run.s.reg.mu.Unlock()
	if run.unanswered >= maxUnanswered {
		return false
	}
	run.unanswered++
	return true
}

// unask takes back a command that was answered, or not sent.
func (run *controlRun) unask() {
	run.s.reg.mu.Lock()
	defer run.s.reg.mu.Unlock()
	run.unanswered = max(run.unanswered-1, 0)
}

func (run *controlRun) acknowledged(m wire.Ack) {
	run.unask()
	run.tell(func(e gateway.ControlEvents) { e.Ack(m) })
}

func (run *controlRun) attached(m wire.Attached) {
	run.telling.Lock()
	defer run.telling.Unlock()
	if owner := run.answered(); owner != nil {
		owner.events.Attached(m)
	}
}

func (run *controlRun) refused(m wire.Refused) {
	run.telling.Lock()
	defer run.telling.Unlock()
	owner := run.answered()
	if owner == nil {
		return
	}
	run.s.reg.mu.Lock()
	run.disown(owner)
	run.s.reg.mu.Unlock()
	owner.events.Refused(m)
}

func (run *controlRun) event(m wire.EventMessage) {
	run.telling.Lock()
	defer run.telling.Unlock()
	run.s.reg.mu.Lock()
	owner, stale := run.owner, run.awaiting > 0
	run.s.reg.mu.Unlock()
	if owner != nil && !stale {
		owner.events.Event(m)
	}
}

// loseControls tells the control planes of a link that has ended.
func (s *session) loseControls() {
	s.reg.mu.Lock()
	var lost []*controlRun
	for _, run := range s.controls {
		run.users++
		lost = append(lost, run)
	}
	s.reg.mu.Unlock()
	for _, run := range lost {
		run.gone()
		run.exit()
	}
}

func (run *controlRun) gone() {
	run.telling.Lock()
	defer run.telling.Unlock()
	run.s.reg.mu.Lock()
	owner := run.owner
	if owner != nil {
		run.disown(owner)
	}
	run.s.reg.mu.Unlock()
	if owner != nil {
		owner.events.Gone(run.id)
	}
}

// runner is the host of the link as control planes see it.
func (s *session) runner() gateway.Runner {
	hello := s.link.Hello()
	r := gateway.Runner{
		HostID: s.host.ID, Name: wire.ShownText(hello.Name), Version: wire.ShownText(hello.Version),
		Capabilities: s.link.Capabilities(), TargetRef: s.host.TargetRef,
	}
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	if s.host.Name != "" {
		r.Name = s.host.Name
	}
	return r
}
