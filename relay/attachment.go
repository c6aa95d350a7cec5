package relay

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/fairlead/fairlead/relay/wire"
)

// Limits of what a run may have journaled and not acknowledged before nothing more
// is claimed: the ordinary share of the contract's 256 events and 4 MiB (RH56). The
// host waits rather than sheds.
const (
	maxPendingEvents = 192
	maxPendingBytes  = 3 << 20
	maxBatch         = 64

	// retireEvery is how many acknowledged events may still stand in the journal. A
	// gateway acknowledges each of its commits; a durable write for each would stand
	// in the way of the next delta of the run, and buys nothing: a host that forgot
	// an acknowledgement is told the cursor again when the run is attached.
	retireEvery = 32

	// maxCommandClaims is how many command seqs of a run are remembered.
	maxCommandClaims = 1024
)

// Attachment is one authorised run of a scope, on one transport. A newer attachment
// of the scope ends it. Its methods are safe for concurrent use; Next is called by
// one goroutine at a time.
type Attachment struct {
	scope    *Scope
	attach   wire.Attach
	features features
	cursor   uint64 // the run's when attached

	wake   chan struct{} // has room for one
	done   chan struct{} // closed when the attachment has ended
	finish sync.Once
	cause  error // why; set before done is closed

	// Guarded by Scope.mu.
	given    uint64 // highest seq that Next gave
	released bool   // Close was called
}

// Attach opens the scope, binds the account, authorises the run, applies the
// gateway's cursor, and journals the catalog if there is a challenge (RH47, RH60).
// Capabilities are those that the link agreed on. Errors: bad_request,
// relay_owner_invalid, relay_owner_mismatch, relay_target_mismatch,
// relay_state_untrusted, relay_command_invalid, relay_other_run_unsettled,
// relay_inference_busy, relay_provider_not_ready, relay_catalog_empty,
// relay_persist_failed, relay_store_unavailable, shutting_down.
func (h *Host) Attach(ctx context.Context, at wire.Attach, capabilities []string) (*Attachment, error) {
	a, err := h.attach(ctx, at, capabilities)
	return a, outward(err)
}

func (h *Host) attach(ctx context.Context, at wire.Attach, capabilities []string) (*Attachment, error) {
	if at.Cursor > maxCursor {
		return nil, wire.NewError(wire.CodeBadRequest, "The cursor is beyond the greatest sequence number.")
	}
	if !wire.ValidRelayID(at.WorkspaceID) {
		return nil, wire.NewError(wire.CodeCommandInvalid, "An identifier of the attachment is not valid.")
	}
	s, err := h.Scope(ctx, at.TargetRef, at.SessionID)
	if err != nil {
		return nil, err
	}
	a := &Attachment{
		scope: s, attach: at, features: featuresOf(capabilities),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := a.begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return a, nil
}

func (a *Attachment) begin(ctx context.Context) error {
	s := a.scope
	if err := s.BindAccount(ctx, a.attach.AccountRef, a.attach.TargetRef); err != nil {
		return err
	}
	if !wire.ValidRelayID(a.attach.RunID) {
		return wire.NewError(wire.CodeCommandInvalid, "An identifier of the attachment is not valid.")
	}
	catalog, err := s.host.catalogPayload(a.attach.Challenge)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.run != nil && s.run.id != a.attach.RunID && s.integrity[s.run.id] > 0 {
		return wire.NewError(wire.CodeOtherRunUnsettled, "The end of a turn of another run has not been acknowledged yet.")
	}
	if err := s.authorize(ctx, a.attach.RunID); err != nil {
		return err
	}
	if err := s.retire(ctx, a.attach.Cursor); err != nil {
		return err
	}
	known := s.run.cursor
	if catalog != nil {
		if err := s.announceCatalog(ctx, catalog); err != nil {
			return err
		}
	}
	if s.attached != nil {
		s.attached.end(wire.NewError(wire.CodeRunNotAuthorized, "A newer attachment of this scope took over."))
	}
	s.releaseClaims()
	a.cursor, a.given = known, known
	s.attached = a
	s.wakeMu.Lock()
	s.wake = a.nudge
	s.wakeMu.Unlock()
	a.nudge()
	return nil
}

// RuntimeCursor is the highest seq that the host knew to be acknowledged when the
// run was attached.
func (a *Attachment) RuntimeCursor() uint64 { return a.cursor }

func (a *Attachment) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// end makes Next and Command fail with cause.
func (a *Attachment) end(cause error) {
	a.finish.Do(func() {
		a.cause = cause
		close(a.done)
	})
}

// Close ends the attachment and releases its claims; the scope keeps its state, and
// its turns go on. Closing twice is allowed.
func (a *Attachment) Close() {
	a.end(wire.NewError(wire.CodeRunNotAuthorized, "The attachment was closed."))
	s := a.scope
	s.mu.Lock()
	first := !a.released
	a.released = true
	if s.attached == a {
		s.releaseClaims()
		s.attached = nil
		s.wakeMu.Lock()
		s.wake = nil
		s.wakeMu.Unlock()
	}
	s.mu.Unlock()
	if first {
		s.lookAfter()
		s.Close()
	}
}

// Command applies a command and answers it. A command is never merely accepted: the
// answer says applied once the turn is accepted durably, or failed (RH53). The same
// seq again with the same content is applied again, which replays it; with another
// content it fails (RH52). A refused command does not use its seq up.
func (a *Attachment) Command(ctx context.Context, m wire.CommandMessage) wire.Ack {
	ack := wire.Ack{RunID: m.RunID, CommandSeq: m.Seq, CommandType: typeOf(m.Command), Status: wire.AckApplied}
	turnID, err := a.command(ctx, m)
	ack.TurnID = turnID
	if err != nil {
		ack.Status, ack.Error = wire.AckFailed, wire.AsError(outward(err)).Body()
		ack.Error.Message = cut(ack.Error.Message, wire.MaxAckErrorChars)
	}
	return ack
}

func (a *Attachment) command(ctx context.Context, m wire.CommandMessage) (turnID string, err error) {
	if err := a.current(); err != nil {
		return "", err
	}
	if m.RunID != a.attach.RunID {
		return "", errForeignRun()
	}
	if m.Seq == 0 || m.Seq > maxCursor {
		return "", wire.NewError(wire.CodeBadRequest, "The sequence number of the command is out of range.")
	}
	cmd, err := wire.ParseCommand(m.Command)
	if err != nil {
		return "", err
	}
	content, err := wire.CanonicalJSON(m.Command)
	if err != nil {
		return "", wire.WrapError(wire.CodeCommandInvalid, "The command cannot be fingerprinted.", err)
	}
	fingerprint := wire.Fingerprint(string(content))
	if err := a.unclaimed(m.Seq, fingerprint); err != nil {
		return "", err
	}
	if turnID, err = a.apply(ctx, cmd); err != nil {
		return turnID, err
	}
	a.claim(m.Seq, fingerprint)
	return turnID, nil
}

// apply is RH54, then the scope's part.
func (a *Attachment) apply(ctx context.Context, cmd wire.Command) (turnID string, err error) {
	if c := cmd.Control; c != nil {
		if c.RunID != a.attach.RunID {
			return c.TurnID, errForeignRun()
		}
		return c.TurnID, a.scope.Interrupt(ctx, c)
	}
	p := cmd.Prompt
	if p.RunID != a.attach.RunID {
		return p.TurnID, errForeignRun()
	}
	if p.Workspace.ID != a.attach.WorkspaceID || p.Workspace.TargetRef != a.attach.TargetRef {
		return p.TurnID, wire.NewError(wire.CodeTargetMismatch, "The command names another workspace than the attachment.")
	}
	return p.TurnID, a.scope.Apply(ctx, p)
}

func errForeignRun() error {
	return wire.NewError(wire.CodeRunNotAuthorized, "The command names another run than the attachment.")
}

// unclaimed is RH52 for a seq whose command was applied before.
func (a *Attachment) unclaimed(seq uint64, fingerprint string) error {
	s := a.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.id != a.attach.RunID {
		return nil // Apply refuses it
	}
	if earlier, ok := s.run.commands[seq]; ok && earlier != fingerprint {
		return wire.NewError(wire.CodeBadRequest, "This sequence number belongs to another command.")
	}
	return nil
}

func (a *Attachment) claim(seq uint64, fingerprint string) {
	s := a.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.id != a.attach.RunID {
		return
	}
	s.run.commands[seq] = fingerprint
	if seq > maxCommandClaims {
		// What is this far back is replayed by its turn's fingerprints alone.
		delete(s.run.commands, seq-maxCommandClaims)
	}
}

// Next waits for envelopes that are journaled and not yet given by this attachment,
// and gives them in order of Seq; first those above the cursor that were pending
// when it began, as they were (RH49). Errors: the cause of ctx; why the attachment
// ended; those of Scope.Poll and Scope.Journal, after which it may be called again.
func (a *Attachment) Next(ctx context.Context) ([]wire.Envelope, error) {
	for {
		if err := a.current(); err != nil {
			return nil, err
		}
		envelopes, err := a.next(ctx)
		if err != nil || len(envelopes) > 0 {
			return envelopes, outward(err)
		}
		select {
		case <-a.wake:
		case <-a.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (a *Attachment) next(ctx context.Context) ([]wire.Envelope, error) {
	s := a.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached != a {
		return nil, a.current()
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := s.authorised(a.attach.RunID); err != nil {
		return nil, err
	}
	out := s.pendingAfter(a.given)
	if len(out) == 0 && s.run.hasRoom() {
		ps, err := s.poll(ctx, min(maxBatch, maxPendingEvents-len(s.run.pending)), a.features)
		if err != nil {
			return nil, err
		}
		if out, err = s.journal(ctx, ps); err != nil {
			return nil, err
		}
	}
	if len(out) > 0 {
		a.given = out[len(out)-1].Seq
	}
	return out, nil
}

func (r *run) hasRoom() bool {
	return len(r.pending) < maxPendingEvents && r.bytes < maxPendingBytes
}

// HandedOff tells that everything up to seq was given to the transport: the turns that
// ended are settled and passed by their bindings' cursors in one durable write, and the
// claims are dropped (RH42). It may be repeated after a failure.
func (a *Attachment) HandedOff(ctx context.Context, seq uint64) error {
	s := a.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached != a {
		return a.current()
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	var ps []Projection
	for _, b := range s.live {
		for _, c := range b.claims {
			if c.seq > 0 && c.seq <= seq {
				ps = append(ps, c.Projection)
			}
		}
	}
	if err := s.handedOff(ctx, ps); err != nil {
		return err
	}
	a.nudge()
	return nil
}

// Acknowledge retires the envelopes up to cursor (RH49): at once when the end of a
// turn is among them, else when enough have gathered.
func (a *Attachment) Acknowledge(ctx context.Context, cursor uint64) error {
	if err := a.current(); err != nil {
		return err
	}
	if a.mayWait(cursor) {
		return nil
	}
	if err := a.scope.Acknowledge(ctx, a.attach.RunID, cursor); err != nil {
		return err
	}
	a.nudge()
	return nil
}

func (a *Attachment) mayWait(cursor uint64) bool {
	s := a.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached != a || s.run == nil || s.run.id != a.attach.RunID {
		return false
	}
	end := s.integrity[s.run.id]
	return cursor <= s.run.last && cursor < s.run.cursor+retireEvery && (end == 0 || cursor < end)
}

// current fails once the attachment has ended.
func (a *Attachment) current() error {
	select {
	case <-a.done:
		return a.cause
	default:
		return nil
	}
}

// typeOf names a command's type, also of one that cannot be parsed.
func typeOf(raw []byte) string {
	var head struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(raw, &head) // what is no JSON has no type
	switch head.Type {
	case wire.TypePromptRequest, wire.TypeRunControl:
		return head.Type
	}
	return ""
}

func cut(s string, chars int) string {
	n := 0
	for i := range s {
		if n == chars {
			return s[:i]
		}
		n++
	}
	return s
}
