package control_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/control"
	"github.com/fairlead/fairlead/relay/wire"
)

// gateway is a gateway whose every word the test says.
type gateway struct {
	testing.TB
	*httptest.Server
	// sockets gets each connection.
	sockets chan *socket
	// refuse, if it is not 0, answers the upgrade in its place.
	refuse atomic.Int32
}

type socket struct {
	testing.TB
	ws *websocket.Conn
}

func newGateway(t testing.TB) *gateway {
	t.Helper()
	g := &gateway{TB: t, sockets: make(chan *socket, 16)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := g.refuse.Load(); status != 0 {
			w.WriteHeader(int(status))
			_, _ = w.Write([]byte(`{"error":{"code":"unauthorized","message":"Log in first.","retryable":false}}`))
			return
		}
		if r.URL.Path != "/base"+wire.ControlPath || r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("dialled %s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.ChatRelayProtocol}})
		if err != nil {
			t.Error(err)
			return
		}
		ws.SetReadLimit(wire.MaxControlFrameBytes)
		g.sockets <- &socket{TB: t, ws: ws}
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *gateway) dial() *control.Client {
	g.Helper()
	c, err := control.Dial(context.Background(), control.Options{
		URL: g.URL + "/base/", Token: "token", RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond,
	})
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(c.Close)
	return c
}

func (g *gateway) next() *socket {
	g.Helper()
	select {
	case s := <-g.sockets:
		g.Cleanup(func() { _ = s.ws.CloseNow() })
		return s
	case <-time.After(10 * time.Second):
		g.Fatal("the client does not dial")
		return nil
	}
}

// frame is any frame of a control plane.
type frame struct {
	Type    string          `json:"type"`
	Cursor  uint64          `json:"cursor"`
	Seq     uint64          `json:"seq"`
	Command json.RawMessage `json:"command"`
	raw     string
}

// read wants the next frame to be of a type and of the contract's shape.
func (s *socket) read(kind string) frame {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, raw, err := s.ws.Read(ctx)
	if err != nil {
		s.Fatalf("waiting for %s: %v", kind, err)
	}
	f, err := wire.DecodeControl(raw)
	if err == nil {
		err = f.Validate()
	}
	if err != nil || f.Head().Type != kind {
		s.Fatalf("%s, %v; want %s", raw, err, kind)
	}
	var got frame
	if err := json.Unmarshal(raw, &got); err != nil {
		s.Fatal(err)
	}
	got.raw = string(raw)
	return got
}

func (s *socket) say(raw string) {
	s.Helper()
	if err := s.ws.Write(context.Background(), websocket.MessageText, []byte(raw)); err != nil {
		s.Fatal(err)
	}
}

func (s *socket) attached(cursor uint64) {
	s.Helper()
	s.push(wire.ControlAttached{Type: "attached", RunID: "run", Runner: wire.Runner{ID: "host", TargetRef: "target"}, RuntimeCursor: cursor})
}

func (s *socket) push(v any) {
	s.Helper()
	raw, err := wire.EncodeControl(v)
	if err != nil {
		s.Fatal(err)
	}
	s.say(string(raw))
}

func (s *socket) event(seq uint64, source string) {
	s.Helper()
	s.push(wire.ControlEvent{Type: "event", EventMessage: wire.EventMessage{RunID: "run", Envelope: wire.Envelope{
		SchemaVersion: 2, Seq: seq, Event: "item.delta", Kind: "item.delta", SourceEventID: source, Payload: []byte(`{}`),
	}}})
}

func (s *socket) ack(seq uint64, e *wire.ErrorBody) {
	s.Helper()
	ack := wire.Ack{RunID: "run", CommandSeq: seq, CommandType: wire.TypePromptRequest, Status: wire.AckApplied}
	if e != nil {
		ack.Status, ack.Error = wire.AckFailed, e
	}
	s.push(wire.ControlAck{Type: "ack", Ack: ack})
}

func (s *socket) refused(code wire.Code) {
	s.Helper()
	s.push(wire.ControlRefused{Type: "refused", Refused: wire.Refused{RunID: "run", Error: wire.NewError(code, "As told.").Body()}})
}
