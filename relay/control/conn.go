package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

// Times of a connection.
const (
	dialTimeout  = 20 * time.Second
	writeTimeout = 20 * time.Second
	pingEvery    = 25 * time.Second
	pongTimeout  = 30 * time.Second
)

// Close codes of protocol.md §1 after which a client does not come back by itself.
const (
	closeMisuse       = 4400
	closeUnauthorized = 4401
	closeForbidden    = 4403
	closeSuperseded   = 4409
	closeTooLarge     = 4413
)

func (c *Client) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, c.url, &websocket.DialOptions{
		HTTPClient: c.o.HTTP, Subprotocols: []string{wire.ChatRelayProtocol},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + c.o.Token}},
	})
	if res != nil && res.Body != nil {
		defer func() { _ = res.Body.Close() }() // of a connection that was upgraded it is empty
	}
	if err != nil {
		if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("control: dial: %w", err)
		}
		return nil, httpError(res, err)
	}
	ws.SetReadLimit(wire.MaxControlFrameBytes)
	return ws, nil
}

// httpError is the refusal of an upgrade.
func httpError(res *http.Response, cause error) error {
	var body struct {
		Error *wire.ErrorBody `json:"error"`
	}
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what is cut is no JSON
	if json.Unmarshal(raw, &body) != nil || body.Error == nil {
		return fmt.Errorf("control: the gateway answers %s: %w", res.Status, cause)
	}
	return errorOf(body.Error)
}

// errorOf makes an error of what the gateway said.
func errorOf(b *wire.ErrorBody) *wire.Error {
	if b == nil {
		return wire.NewError(wire.CodeInternal, "The gateway gave no reason.")
	}
	return &wire.Error{
		Code: b.Code, Message: b.Message, Retryable: b.Retryable, Fields: b.Fields,
		RetryAfter: time.Duration(b.RetryAfterMs) * time.Millisecond, Limit: b.Limit,
	}
}

// final tells whether the client must not come back by itself.
func final(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && !e.Retryable
}

// closed is the error behind a close code.
func closed(err error) error {
	switch websocket.CloseStatus(err) {
	case closeUnauthorized:
		return wire.WrapError(wire.CodeUnauthorized, "The token has ended.", err)
	case closeForbidden:
		return wire.WrapError(wire.CodeForbidden, "The gateway does not take this client.", err)
	case closeMisuse, closeSuperseded:
		return wire.WrapError(wire.CodeBadRequest, "The gateway closed the connection for good.", err)
	case closeTooLarge:
		return wire.WrapError(wire.CodeFrameTooLarge, "A frame was too large for the gateway.", err)
	}
	return fmt.Errorf("control: the connection has ended: %w", err)
}

// serve reads a connection until it ends.
func (c *Client) serve(ws *websocket.Conn) error {
	ctx, cancel := context.WithCancel(c.life)
	var others sync.WaitGroup
	others.Go(func() { c.write(ctx, ws) })
	others.Go(func() { keepAlive(ctx, ws) })
	err := c.read(ctx, ws)
	cancel()
	_ = ws.CloseNow()
	others.Wait()
	c.disconnected()
	return err
}

// keepAlive ends a connection whose other end has vanished.
func keepAlive(ctx context.Context, ws *websocket.Conn) {
	for sleep(ctx, pingEvery) {
		bounded, cancel := context.WithTimeout(ctx, pongTimeout)
		err := ws.Ping(bounded)
		cancel()
		if err != nil {
			_ = ws.CloseNow()
			return
		}
	}
}

func (c *Client) read(ctx context.Context, ws *websocket.Conn) error {
	for {
		_, raw, err := ws.Read(ctx)
		if err != nil {
			return closed(err)
		}
		if err := c.take(raw); err != nil {
			return fmt.Errorf("control: a frame of the gateway: %w", err)
		}
	}
}

// push is any frame of a gateway.
type push struct {
	Type          string          `json:"type"`
	RunID         string          `json:"runId"`
	Error         *wire.ErrorBody `json:"error"`
	Runner        wire.Runner     `json:"runner"`
	RuntimeCursor uint64          `json:"runtimeCursor"`
	Envelope      wire.Envelope   `json:"envelope"`
	RetryAfterMs  int64           `json:"retryAfterMs"`
}

// take handles one frame; types that it does not know are left to newer clients.
func (c *Client) take(raw []byte) error {
	var p push
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.poke()
	if p.Type == wire.ControlTypeGoaway {
		c.away = time.Duration(p.RetryAfterMs) * time.Millisecond
		return nil
	}
	if p.Type == "" {
		c.complaint(p.Error)
		return nil
	}
	r := c.find(p.RunID)
	if r == nil {
		return nil
	}
	switch p.Type {
	case wire.ControlTypeAttached:
		r.attached(p.Runner, p.RuntimeCursor)
	case wire.ControlTypeRefused:
		r.refused(errorOf(p.Error))
	case wire.ControlTypeEvent:
		r.event(p.Envelope)
	case wire.ControlTypeAck:
		var ack wire.Ack
		if err := json.Unmarshal(raw, &ack); err != nil {
			return err
		}
		r.acknowledged(ack)
	}
	return nil
}

// complaint is about a frame that the gateway does not name. Only cursors are told
// again: all else is answered in its own form. It needs mu.
func (c *Client) complaint(b *wire.ErrorBody) {
	if b == nil {
		return
	}
	c.o.Logger.Warn("control: the gateway refused a frame", "code", b.Code, "message", b.Message)
	if !b.Retryable {
		return
	}
	c.quietUntil = time.Now().Add(max(time.Duration(b.RetryAfterMs)*time.Millisecond, c.o.RetryMin))
	for _, r := range c.runs {
		r.told = 0
	}
}

// find needs mu.
func (c *Client) find(runID string) *Run {
	for _, r := range c.runs {
		if r.at.RunID == runID {
			return r
		}
	}
	return nil
}

// disconnected makes every run attach again with the next connection.
func (c *Client) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runs {
		r.stage, r.attachAt = detached, time.Time{}
	}
}
