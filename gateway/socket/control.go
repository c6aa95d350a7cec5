package socket

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// ControlProtocol is the subprotocol that a control plane must offer.
const ControlProtocol = wire.ChatRelayProtocol

// Control is the hosts as one control plane's session drives them; *hosts.Control is
// one. Calls of one session come one after the other. What a host answers comes
// through gateway.ControlEvents.
type Control interface {
	// Attach asks the host of a target for a run and names the host. If the error is
	// nil, Attached or Refused answers. Errors: not_found, host_offline,
	// forbidden.
	Attach(ctx context.Context, a wire.Attach) (gateway.Runner, error)
	// Command forwards a command; Ack answers. Errors: relay_run_not_authorized,
	// host_offline.
	Command(ctx context.Context, m wire.CommandMessage) error
	Cursor(ctx context.Context, runID string, cursor uint64) error
	Detach(ctx context.Context, runID string) error
	// Close gives every run up. No event comes after it returned.
	Close()
}

const (
	// frameOverhead is what a frame that waits takes beside its own bytes.
	frameOverhead = 1 << 10
	// maxHeld is how many messages of a host may wait for the name of the runner: far
	// more than a host sends ahead of a run's cursor (RH56).
	maxHeld = 1024
)

// ServeControl serves GET /ws/control. It answers before the upgrade as ServeHTTP
// does, but takes bearer tokens alone: 401, 403, 404, 400, 426 or 503.
func (s *Server) ServeControl(w http.ResponseWriter, r *http.Request) {
	actor, err := s.bearer(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if !upgrades(r) {
		askForUpgrade(w, ControlProtocol)
		return
	}
	if err := s.admitControl(r, actor); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.upgrade(w, r, actor, ControlProtocol, func(sess *session) []byte {
		sess.frameBytes = wire.MaxControlFrameBytes
		perSecond := s.limits.ControlPerSecond
		sess.allowed = rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)
		c := &control{s: sess, runs: make(map[string]*controlRun), cursors: make(map[string]uint64)}
		c.hosts = s.cfg.OpenControl(actor.AccountID, c)
		sess.control = c
		return nil
	})
}

// bearer is Authenticate for those who do not come from a page.
func (s *Server) bearer(r *http.Request) (gateway.Actor, error) {
	if r.Header.Get("Authorization") == "" {
		return gateway.Actor{}, wire.NewError(wire.CodeUnauthorized, "A control plane needs a bearer token.")
	}
	return s.cfg.Authenticate(r)
}

func (s *Server) admitControl(r *http.Request, actor gateway.Actor) error {
	if !actor.May(gateway.ScopeControl) {
		return wire.NewError(wire.CodeForbidden, "This credential may not drive runs at hosts.")
	}
	if s.cfg.OpenControl == nil {
		return wire.NewError(wire.CodeNotFound, "Control planes are not served here.")
	}
	return s.admitHandshake(r, ControlProtocol)
}

// control is the session of a control plane: the shape of what it sends is checked
// before a host sees it, and what hosts say is passed on as it is.
type control struct {
	s     *session
	hosts Control

	// mu guards the rest. It is held while a push is queued, so that pushes of a run
	// keep their order, and never while hosts is called.
	mu   sync.Mutex
	runs map[string]*controlRun
	// cursors are those that the worker has still to forward, by run: of several
	// the last counts.
	cursors map[string]uint64
	waiting int // bytes of frames in the line
}

// controlRun is a run that was attached over this session.
type controlRun struct {
	attach wire.Attach
	runner wire.Runner
	// asking is set until hosts has named the runner; what its host says meanwhile
	// is held back.
	asking bool
	held   []func(*controlRun) []byte
	// over is set when the host refused the run or left.
	over bool
}

// frame is the reader's: it answers what is malformed and puts the rest into the
// line.
func (c *control) frame(raw []byte) {
	f, err := wire.DecodeControl(raw)
	if err == nil {
		err = f.Validate()
	}
	if err == nil && c.s.isLeaving() {
		err = shuttingDown(c.s.srv.limits.RetryAfter)
	}
	if err != nil {
		c.refuse(f, err)
		return
	}
	cursor, unnamed := f.(*wire.ControlCursor)
	if unnamed = unnamed && cursor.ID == ""; unnamed && !c.coalesce(cursor) {
		return
	}
	size := len(raw) + frameOverhead
	if !c.take(size) {
		if unnamed {
			c.uncoalesce(cursor)
		}
		c.s.tooMany(100*time.Millisecond, func(e *wire.Error) { c.refuse(f, e) })
		return
	}
	c.s.srv.commandsRun.Add(1)
	c.s.do(func(ctx context.Context) {
		defer c.give(size)
		c.execute(ctx, f)
	})
}

// refuseFrame answers a frame that was not looked at.
func (c *control) refuseFrame(raw []byte, cause *wire.Error) {
	f, _ := wire.DecodeControl(raw) // what is malformed as well is told one thing at a time
	c.refuse(f, cause)
}

// coalesce notes a cursor; false means that the worker will come by anyway.
func (c *control) coalesce(f *wire.ControlCursor) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	earlier, waits := c.cursors[f.RunID]
	c.cursors[f.RunID] = max(earlier, f.Cursor)
	return !waits
}

// uncoalesce forgets a cursor that the worker will not come by for.
func (c *control) uncoalesce(f *wire.ControlCursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cursors, f.RunID)
}

func (c *control) take(bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting+bytes > c.s.srv.limits.ControlLineBytes {
		return false
	}
	c.waiting += bytes
	return true
}

func (c *control) give(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting -= bytes
}

// execute is the worker's.
func (c *control) execute(ctx context.Context, f wire.ControlFrame) {
	id := f.Head().ID
	defer c.s.survive(id)
	c.s.touch(ctx)
	if err := c.run(ctx, f); err != nil {
		c.log(ctx, err)
		c.refuse(f, err)
		return
	}
	if ping, ok := f.(*wire.ControlPing); ok {
		c.s.push(encode(pong{Re: ping.ID, OK: true, ServerTime: gateway.Time{Time: c.s.srv.now()}}))
		return
	}
	if id != "" {
		c.s.push(encodeReply(id, nil))
	}
}

type pong struct {
	Re         string       `json:"re,omitempty"`
	OK         bool         `json:"ok"`
	ServerTime gateway.Time `json:"serverTime"`
}

func (c *control) log(ctx context.Context, err error) {
	if code := wire.CodeOf(err); code == wire.CodeInternal || code == wire.CodeStorageUnavailable {
		c.s.log.ErrorContext(ctx, "socket: a control plane's frame was not forwarded", "error", err)
	}
}

// errDetached is what a host says of a run that is not attached.
func errDetached() error {
	return wire.NewError(wire.CodeRunNotAuthorized, "This run is not attached.")
}

func (c *control) run(ctx context.Context, f wire.ControlFrame) error {
	switch f := f.(type) {
	case *wire.ControlAttach:
		return c.attach(ctx, f.Attach())
	case *wire.ControlCommand:
		return c.command(ctx, f.CommandMessage)
	case *wire.ControlCursor:
		return c.cursor(ctx, f)
	case *wire.ControlDetach:
		return c.detach(ctx, f.RunID)
	}
	return nil
}

// command lets through what a host could take, and answers else what the host
// would, in the order in which it looks (relay-host.md §7.10).
func (c *control) command(ctx context.Context, m wire.CommandMessage) error {
	c.mu.Lock()
	run := c.runs[m.RunID]
	c.mu.Unlock()
	if run == nil || run.over {
		return errDetached()
	}
	if err := checkCommand(run.attach, m); err != nil {
		return err
	}
	return c.hosts.Command(ctx, m)
}

func checkCommand(at wire.Attach, m wire.CommandMessage) error {
	cmd, err := wire.ParseCommand(m.Command)
	if err != nil {
		return err
	}
	if run := runOf(cmd); run != at.RunID {
		return wire.NewError(wire.CodeRunNotAuthorized, "The command names another run than the attachment.")
	}
	if p := cmd.Prompt; p != nil && (p.Workspace.ID != at.WorkspaceID || p.Workspace.TargetRef != at.TargetRef) {
		return wire.NewError(wire.CodeTargetMismatch, "The command names another workspace than the attachment.")
	}
	return cmd.Validate()
}

func runOf(cmd wire.Command) string {
	if cmd.Control != nil {
		return cmd.Control.RunID
	}
	return cmd.Prompt.RunID
}

// cursor forwards the newest cursor of the run. A run that is not attached needs
// none: the next attach brings it.
func (c *control) cursor(ctx context.Context, f *wire.ControlCursor) error {
	c.mu.Lock()
	newest := max(c.cursors[f.RunID], f.Cursor)
	delete(c.cursors, f.RunID)
	run := c.runs[f.RunID]
	attached := run != nil && !run.over
	c.mu.Unlock()
	if !attached {
		return nil
	}
	return detachedIsFine(c.hosts.Cursor(ctx, f.RunID, newest))
}

func (c *control) detach(ctx context.Context, runID string) error {
	c.mu.Lock()
	_, known := c.runs[runID]
	delete(c.runs, runID)
	c.allow()
	c.mu.Unlock()
	if !known {
		return nil
	}
	return detachedIsFine(c.hosts.Detach(ctx, runID))
}

// detachedIsFine drops the error that a run is not attached, or its host away: the
// control plane is told by Refused or Gone.
func detachedIsFine(err error) error {
	switch wire.CodeOf(err) {
	case wire.CodeRunNotAuthorized, wire.CodeHostOffline, wire.CodeNotFound:
		return nil
	}
	return err
}

// refuse answers a frame in the form that belongs to it, and under its id if it has
// one.
func (c *control) refuse(f wire.ControlFrame, cause error) {
	e, id := wire.AsError(cause), ""
	if f != nil {
		id = f.Head().ID
	}
	formed := c.refusal(f, e)
	if formed != nil {
		c.s.push(formed)
	}
	if formed == nil || id != "" {
		c.s.push(encodeError(id, e))
	}
}

// refusal is nil where the frame cannot be named.
func (c *control) refusal(f wire.ControlFrame, e *wire.Error) []byte {
	switch f := f.(type) {
	case *wire.ControlAttach:
		if wire.ValidRelayID(f.RunID) {
			return encode(wire.ControlRefused{
				Type: wire.ControlTypeRefused, Refused: wire.Refused{RunID: f.RunID, Error: e.Body()},
			})
		}
	case *wire.ControlCommand:
		if wire.ValidRelayID(f.RunID) && f.Seq > 0 && f.Seq <= wire.MaxSeq {
			return encode(wire.ControlAck{Type: wire.ControlTypeAck, Ack: failed(f.CommandMessage, e)})
		}
	}
	return nil
}

// failed is the answer to a command that no host saw.
func failed(m wire.CommandMessage, e *wire.Error) wire.Ack {
	ack := wire.Ack{RunID: m.RunID, CommandSeq: m.Seq, Status: wire.AckFailed, Error: e.Body()}
	cmd, err := wire.ParseCommand(m.Command)
	switch {
	case cmd.Prompt != nil:
		ack.CommandType = wire.TypePromptRequest
		if err == nil {
			ack.TurnID = cmd.Prompt.TurnID
		}
	case cmd.Control != nil:
		ack.CommandType = wire.TypeRunControl
		if err == nil {
			ack.TurnID = cmd.Control.TurnID
		}
	}
	return ack
}
