package control

import (
	"context"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

// cursorEvery is the least time between two cursors, so that a reader who
// acknowledges each of many envelopes is not too much for the gateway.
const cursorEvery = 5 * time.Millisecond

// write sends what is due until the connection ends.
func (c *Client) write(ctx context.Context, ws *websocket.Conn) {
	for {
		frame, wait := c.due(time.Now())
		if frame != nil {
			if send(ctx, ws, frame) != nil {
				_ = ws.CloseNow() // the reader finds out
				return
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func send(ctx context.Context, ws *websocket.Conn, frame any) error {
	raw, err := wire.EncodeControl(frame)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return ws.Write(ctx, websocket.MessageText, raw)
}

const nothingDue = time.Hour

// due gives the next frame, or for how long there is none. The runs take turns.
func (c *Client) due(now time.Time) (frame any, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.quietUntil.Sub(now); wait > 0 {
		return nil, wait
	}
	wait = nothingDue
	for i := range c.runs {
		at := (c.turn + i) % len(c.runs)
		frame, after := c.runs[at].due(now)
		if frame != nil {
			c.turn = at + 1
			return frame, 0
		}
		wait = min(wait, after)
	}
	return nil, wait
}

// due needs Client.mu.
func (r *Run) due(now time.Time) (frame any, wait time.Duration) {
	switch {
	case r.leaving && r.stage == attached && r.cursor == r.told, r.leaving && r.stage != attached:
		frame := &wire.ControlDetach{
			ControlHead: wire.ControlHead{Type: wire.ControlTypeDetach}, Detach: wire.Detach{RunID: r.at.RunID},
		}
		r.end(ErrClosed)
		return frame, 0
	case r.stage == detached:
		if wait := r.attachAt.Sub(now); wait > 0 {
			return nil, wait
		}
		return r.attach(), 0
	case r.stage == attaching:
		return nil, nothingDue
	}
	for _, cmd := range r.commands {
		if !cmd.sent {
			cmd.sent = true
			return cmd.frame, 0
		}
	}
	if r.cursor <= r.told {
		return nil, nothingDue
	}
	if wait := r.c.cursorAt.Sub(now); wait > 0 {
		return nil, wait
	}
	r.c.cursorAt, r.told = now.Add(cursorEvery), r.cursor
	return &wire.ControlCursor{
		ControlHead:   wire.ControlHead{Type: wire.ControlTypeCursor},
		CursorMessage: wire.CursorMessage{RunID: r.at.RunID, Cursor: r.cursor},
	}, 0
}

// attach asks for the run from where its caller stands; everything that was not
// answered is due again once it is attached.
func (r *Run) attach() *wire.ControlAttach {
	r.stage, r.told = attaching, r.cursor
	for _, cmd := range r.commands {
		cmd.sent = false
	}
	return &wire.ControlAttach{
		ControlHead: wire.ControlHead{Type: wire.ControlTypeAttach},
		TargetRef:   r.at.TargetRef, SessionID: r.at.SessionID, AccountRef: r.at.AccountRef, RunID: r.at.RunID,
		WorkspaceID: r.at.WorkspaceID, Cursor: r.cursor, Challenge: r.at.Challenge,
	}
}
