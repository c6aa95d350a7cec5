package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestEnding_ReachesTheOtherEndAfterWhatWasSent(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		for _, e := range []link.Ending{
			{},
			{Code: link.CloseNormal},
			{Code: link.CloseRestart, Reason: "shutting down"},
			{Code: link.CloseProtocol, Reason: "why"},
			{Code: link.CloseUnauthorized},
			{Code: link.CloseForbidden, Reason: "revoked"},
			{Code: link.CloseSuperseded, Reason: "a newer link"},
		} {
			for _, gatewayCloses := range []bool{true, false} {
				closes, learns := over(t)
				if gatewayCloses {
					closes, learns = learns, closes
				}
				if err := closes.Send(t.Context(), wire.Offline{Reason: "last word"}); err != nil {
					t.Fatal(err)
				}
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					_ = closes.Close(e)
					_ = closes.Close(link.Ending{Code: link.CloseTooSlow}) // the first counts
				}()
				if m, err := learns.Receive(t.Context()); err != nil || m != (wire.Offline{Reason: "last word"}) {
					t.Errorf("%+v: what was sent before: %v, %v", e, m, err)
				}
				<-closed
				_, err := learns.Receive(t.Context())
				checkEnding(t, err, e)
				checkEnding(t, learns.Send(t.Context(), wire.Room{}), e)
				if err := closes.Send(t.Context(), wire.Room{}); !errors.Is(err, link.ErrClosed) {
					t.Errorf("sending after closing: %v", err)
				}
				if _, err := closes.Receive(t.Context()); !errors.Is(err, link.ErrClosed) {
					t.Errorf("receiving after closing: %v", err)
				}
				_ = learns.Close(link.Ending{})
			}
		}
	})
}

func checkEnding(t *testing.T, err error, want link.Ending) {
	t.Helper()
	if !errors.Is(err, link.ErrClosed) {
		t.Errorf("%+v is learned as %v", want, err)
	}
	var ended *link.EndedError
	normal := want.Code == 0 || want.Code == link.CloseNormal
	if errors.As(err, &ended) == normal || !normal && ended.Ending != want {
		t.Errorf("%+v is learned as %v", want, err)
	}
}

func TestSocket_ReasonsAreCutToWhatACloseFrameHolds(t *testing.T) {
	t.Parallel()
	host, gateway := overWebSocket(t)
	go func() {
		_ = gateway.Close(link.Ending{Code: link.CloseProtocol, Reason: "\x07" + strings.Repeat("é", 100)})
	}()
	_, err := host.Receive(t.Context())
	var ended *link.EndedError
	if !errors.As(err, &ended) || ended.Reason != strings.Repeat("é", 61) {
		t.Errorf("learned as %v", err)
	}
	_ = host.Close(link.Ending{})
}

// stranger is a WebSocket client that is no host of ours.
func stranger(t *testing.T, s *server) *websocket.Conn {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{Subprotocols: []string{wire.HostProtocol}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

const someHello = `{"type":"hello","hostId":"host_1","name":"n","version":"1","protocols":["fairlead.host.v1"],"capabilities":[],"clockMs":1}`

func TestSocket_EndsOnWhatIsNoFrame(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind  websocket.MessageType
		frame string
		code  websocket.StatusCode
	}{
		"bytes":         {websocket.MessageBinary, `{"type":"room","inflight":0,"max":1}`, link.CloseProtocol},
		"no JSON":       {websocket.MessageText, `room`, link.CloseProtocol},
		"malformed":     {websocket.MessageText, `{"type":"room","inflight":"0","max":1}`, link.CloseProtocol},
		"of a gateway":  {websocket.MessageText, `{"type":"drain","reason":"x"}`, link.CloseProtocol},
		"another hello": {websocket.MessageText, someHello, link.CloseProtocol},
		"too large":     {websocket.MessageText, `{"type":"newer","x":"` + strings.Repeat("x", wire.MaxLinkFrame) + `"}`, link.CloseTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, link.SocketOptions{})
			ws := stranger(t, s)
			write(t, ws, websocket.MessageText, someHello)
			session, err := link.Open(t.Context(), take(t, s.conns), link.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- session.Serve(context.WithoutCancel(t.Context()), newRecorder()) }()
			write(t, ws, websocket.MessageText, `{"type":"newer"}`) // passes
			write(t, ws, tt.kind, tt.frame)
			var got error
			for got == nil {
				_, _, got = ws.Read(t.Context())
			}
			if code := websocket.CloseStatus(got); code != tt.code {
				t.Errorf("closed with %d: %v", code, got)
			}
			var misuse *link.ProtocolError
			if err := take(t, ended); !errors.As(err, &misuse) {
				t.Errorf("the gateway's end: %v", err)
			}
		})
	}
}

func write(t *testing.T, ws *websocket.Conn, kind websocket.MessageType, frame string) {
	t.Helper()
	if err := ws.Write(t.Context(), kind, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func TestSocket_CarriesTheLargestFrames(t *testing.T) {
	t.Parallel()
	host, gateway := overWebSocket(t)
	m := wire.CommandMessage{RunID: "run_1", Seq: 1, Command: json.RawMessage(`"` + strings.Repeat("x", wire.MaxLinkFrame-100) + `"`)}
	for _, ends := range [][2]link.Conn{{host, gateway}, {gateway, host}} {
		sent := make(chan error, 1)
		go func() { sent <- ends[0].Send(t.Context(), m) }()
		got, err := ends[1].Receive(t.Context())
		if err != nil || len(got.(wire.CommandMessage).Command) != len(m.Command) {
			t.Errorf("received: %v", err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	over := wire.CommandMessage{RunID: "run_1", Seq: 2, Command: json.RawMessage(`"` + strings.Repeat("x", wire.MaxLinkFrame) + `"`)}
	if err := host.Send(t.Context(), over); wire.CodeOf(err) != wire.CodeFrameTooLarge {
		t.Errorf("a frame too large: %v", err)
	}
	if err := host.Send(t.Context(), wire.Room{Max: 1}); err != nil {
		t.Errorf("the link goes on after it: %v", err)
	}
	if m, err := gateway.Receive(t.Context()); m != (wire.Room{Max: 1}) {
		t.Errorf("after it comes %v, %v", m, err)
	}
	_ = host.Close(link.Ending{})
}

// Over real buffers: nobody reads, and sending ends by itself.
func TestF10_NothingIsGatheredForAHostThatReadsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t, link.SocketOptions{WriteTimeout: 300 * time.Millisecond})
	stranger(t, s) // it never reads
	conn := take(t, s.conns)
	m := wire.CommandMessage{RunID: "run_1", Seq: 1, Command: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	sent := 0
	for {
		if err := conn.Send(t.Context(), m); err != nil {
			if !errors.Is(err, link.ErrStuck) {
				t.Errorf("after %d MiB: %v", sent, err)
			}
			break
		}
		if sent++; sent > 256 {
			t.Fatal("256 MiB were taken")
		}
	}
	start := time.Now()
	_ = conn.Close(link.Ending{Code: link.CloseTooSlow})
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("closing took %s", took)
	}
}

func TestSocket_CloseIsBoundedWhileAWriteWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, gateway, between := newMemnet(t).connect()
		between.clog()
		ended := make(chan error, 1)
		go func() { ended <- gateway.Send(t.Context(), largeCommand()) }()
		synctest.Wait()
		start := time.Now()
		_ = gateway.Close(link.Ending{Code: link.CloseRestart})
		if err := <-ended; !errors.Is(err, link.ErrClosed) {
			t.Errorf("the write ends with %v", err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("closing took %s", took)
		}
	})
}

func TestSocket_SendEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, gateway, between := newMemnet(t).connect()
		between.clog()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := gateway.Send(ctx, largeCommand()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func largeCommand() wire.CommandMessage {
	return wire.CommandMessage{RunID: "run_1", Seq: 1, Command: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
}

// A write that fails because the other end closed says how that closed, once the
// reader has come to it.
func TestSocket_AWriteLearnsHowTheOtherEndClosed(t *testing.T) {
	t.Parallel()
	host, gateway := overWebSocket(t)
	if err := gateway.Send(t.Context(), wire.CatalogRequest{Challenge: wire.NewChallenge()}); err != nil {
		t.Fatal(err)
	}
	_ = gateway.Close(link.Ending{Code: link.CloseSuperseded})
	failed := make(chan error, 1)
	go func() {
		for {
			if err := host.Send(t.Context(), wire.Room{}); err != nil {
				failed <- err
				return
			}
		}
	}()
	<-time.After(200 * time.Millisecond) // the write fails before the reader goes on
	if _, err := host.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkEnding(t, take(t, failed), link.Ending{Code: link.CloseSuperseded})
	_ = host.Close(link.Ending{})
}

func TestAccept_RefusesWhatIsNoLink(t *testing.T) {
	t.Parallel()
	s := newServer(t, link.SocketOptions{})
	for name, tt := range map[string]struct {
		header http.Header
		status int
		says   []string
	}{
		"a page":            {http.Header{}, http.StatusUpgradeRequired, []string{wire.HostProtocol}},
		"another protocol":  {handshake("fairlead.host.v9"), http.StatusBadRequest, []string{wire.HostProtocol, "fairlead.host.v9"}},
		"no protocol":       {handshake(""), http.StatusBadRequest, []string{wire.HostProtocol}},
		"no version of its": {without(handshake(wire.HostProtocol), "Sec-WebSocket-Key"), http.StatusBadRequest, nil},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = tt.header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %s", name, resp.Status)
		}
		for _, word := range tt.says {
			if !strings.Contains(string(body), word) {
				t.Errorf("%s: %s", name, body)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func handshake(protocol string) http.Header {
	h := http.Header{}
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", "websocket")
	h.Set("Sec-WebSocket-Version", "13")
	h.Set("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	if protocol != "" {
		h.Set("Sec-WebSocket-Protocol", protocol)
	}
	return h
}

func without(h http.Header, key string) http.Header {
	h.Del(key)
	return h
}
