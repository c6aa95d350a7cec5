package link_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// attempts keeps a host linked by dial for d and gives when it dialled.
func attempts(t *testing.T, d time.Duration, dial func(n int) (link.Conn, error)) (at []time.Duration, err error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	start := time.Now()
	err = link.Keep(ctx, link.KeepOptions{Host: newScriptedHost(), Dial: func(context.Context) (link.Conn, error) {
		at = append(at, time.Since(start))
		return dial(len(at))
	}})
	return at, err
}

func pauses(at []time.Duration) []time.Duration {
	var between []time.Duration
	for i := 1; i < len(at); i++ {
		between = append(between, at[i]-at[i-1])
	}
	return between
}

func TestRH50_AnAbsentGatewayIsAskedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at, err := attempts(t, time.Hour, func(int) (link.Conn, error) { return nil, errors.New("no route") })
		if err != nil {
			t.Errorf("ended with %v", err)
		}
		between := pauses(at)
		for i, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
			if got := between[i]; got < want/2 || got > want*3/2 {
				t.Errorf("pause %d is %s, want about %s", i, got, want)
			}
		}
		for i, got := range between {
			if late := at[i] > 2*time.Minute; late && (got < 15*time.Second || got > 45*time.Second) {
				t.Errorf("after %s without a gateway the pause is %s", at[i], got)
			}
		}
		if slices.Equal(between[10:20], slices.Repeat(between[10:11], 10)) {
			t.Error("the pauses have no jitter")
		}
	})
}

// gatewayFor serves a link for d and then ends it.
func gatewayFor(t *testing.T, d time.Duration, e link.Ending, before func(*link.Session)) link.Conn {
	t.Helper()
	hostConn, gatewayConn := link.Pipe()
	go func() {
		session, err := link.Open(context.Background(), gatewayConn, link.SessionOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		time.AfterFunc(d, func() {
			if before != nil {
				before(session)
			}
			_ = session.End(e)
		})
		_ = session.Serve(context.Background(), newRecorder())
	}()
	return hostConn
}

func TestRH50_OnlyALinkThatStoodResetsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at, _ := attempts(t, 2*time.Minute, func(int) (link.Conn, error) { return gatewayFor(t, 0, link.Ending{}, nil), nil })
		if between := pauses(at); between[6] < 2*time.Second {
			t.Errorf("a gateway that drops every link is asked every %s", between[6])
		}
		at, _ = attempts(t, 10*time.Minute, func(n int) (link.Conn, error) {
			if n == 10 {
				return gatewayFor(t, 3*time.Minute, link.Ending{}, nil), nil
			}
			return nil, errors.New("no route")
		})
		if got := at[10] - at[9] - 3*time.Minute; got > 400*time.Millisecond {
			t.Errorf("after a link that stood the pause is %s", got)
		}
	})
}

func TestF12_HostsReturnWhenTheyWereAskedToAndNotAllAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hosts = 50
		var mu sync.Mutex
		var returned []time.Duration
		var all sync.WaitGroup
		for range hosts {
			all.Go(func() {
				at, _ := attempts(t, 30*time.Second, func(n int) (link.Conn, error) {
					if n > 1 {
						return gatewayFor(t, time.Hour, link.Ending{}, nil), nil
					}
					return gatewayFor(t, time.Minute/4, link.Ending{Code: link.CloseRestart}, func(s *link.Session) {
						_ = s.Goaway(context.Background(), "shutting down", 4*time.Second)
					}), nil
				})
				mu.Lock()
				defer mu.Unlock()
				returned = append(returned, at[1]-time.Minute/4)
			})
		}
		all.Wait()
		slices.Sort(returned)
		if first, last := returned[0], returned[hosts-1]; first < 4*time.Second || last > 6*time.Second || last-first < time.Second {
			t.Errorf("returned between %s and %s", first, last)
		}
	})
}

func TestKeep_EndsWhenTheHostMustNotComeBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refusal error
		ending  link.Ending
		before  func(*link.Session)
		dials   int
	}{
		"403 revoked": {
			refusal: &link.RefusedError{Status: http.StatusForbidden, Code: wire.CodeHostRevoked}, dials: 1,
		},
		"403 forbidden": {
			refusal: &link.RefusedError{Status: http.StatusForbidden, Code: wire.CodeForbidden}, dials: 1,
		},
		"401": {
			refusal: &link.RefusedError{Status: http.StatusUnauthorized, Code: wire.CodeUnauthorized}, dials: 3,
		},
		"4401":    {ending: link.Ending{Code: link.CloseUnauthorized}, dials: 1},
		"4403":    {ending: link.Ending{Code: link.CloseForbidden}, dials: 1},
		"4409":    {ending: link.Ending{Code: link.CloseSuperseded}, dials: 1},
		"revoked": {before: func(s *link.Session) { _ = s.Revoke(context.Background(), "gone") }, dials: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at, err := attempts(t, time.Hour, func(int) (link.Conn, error) {
					if tt.refusal != nil {
						return nil, tt.refusal
					}
					return gatewayFor(t, time.Minute, tt.ending, tt.before), nil
				})
				if err == nil || len(at) != tt.dials {
					t.Errorf("after %d attempts: %v", len(at), err)
				}
				synctest.Wait()
			})
		})
	}
}

func TestKeep_ComesBackAfterAllElse(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(t *testing.T) (link.Conn, error){
		"400": func(*testing.T) (link.Conn, error) { return nil, &link.RefusedError{Status: http.StatusBadRequest} },
		"426": func(*testing.T) (link.Conn, error) {
			return nil, &link.RefusedError{Status: http.StatusUpgradeRequired}
		},
		"503": func(*testing.T) (link.Conn, error) {
			return nil, &link.RefusedError{Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second}
		},
		"401, once": func(*testing.T) (link.Conn, error) {
			return nil, &link.RefusedError{Status: http.StatusUnauthorized, Code: wire.CodeUnauthorized}
		},
		"1000": func(t *testing.T) (link.Conn, error) { return gatewayFor(t, time.Minute, link.Ending{}, nil), nil },
		"1012": func(t *testing.T) (link.Conn, error) {
			return gatewayFor(t, time.Minute, link.Ending{Code: link.CloseRestart}, nil), nil
		},
		"4400": func(t *testing.T) (link.Conn, error) {
			return gatewayFor(t, time.Minute, link.Ending{Code: link.CloseProtocol}, nil), nil
		},
		"4408": func(t *testing.T) (link.Conn, error) {
			return gatewayFor(t, time.Minute, link.Ending{Code: link.CloseTooSlow}, nil), nil
		},
		"4413": func(t *testing.T) (link.Conn, error) {
			return gatewayFor(t, time.Minute, link.Ending{Code: link.CloseTooLarge}, nil), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at, err := attempts(t, 10*time.Minute, func(n int) (link.Conn, error) {
					if n == 1 {
						return first(t)
					}
					return gatewayFor(t, time.Hour, link.Ending{}, nil), nil
				})
				if err != nil || len(at) != 2 {
					t.Errorf("after %d attempts: %v", len(at), err)
				}
				if name == "503" && at[1]-at[0] < 5*time.Second {
					t.Errorf("again after %s", at[1]-at[0])
				}
				synctest.Wait()
			})
		})
	}
}

// TestKeep_ComesBackToAGatewayBehindAProxyThatRefuses: a page of a proxy speaks for no
// gateway, whatever its status.
func TestKeep_ComesBackToAGatewayBehindAProxyThatRefuses(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		status int
		code   wire.Code
	}{
		"401":                  {status: http.StatusUnauthorized},
		"403":                  {status: http.StatusForbidden},
		"403 of somebody else": {status: http.StatusForbidden, code: "access_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at, err := attempts(t, 10*time.Minute, func(n int) (link.Conn, error) {
					if n <= 5 {
						return nil, &link.RefusedError{Status: answer.status, Code: answer.code}
					}
					return gatewayFor(t, time.Hour, link.Ending{}, nil), nil
				})
				if err != nil || len(at) != 6 {
					t.Errorf("after %d attempts: %v", len(at), err)
				}
				synctest.Wait()
			})
		})
	}
}

// journaled is an envelope that tells resending from making anew.
func journaled(seq uint64) wire.Envelope {
	return wire.Envelope{
		SchemaVersion: wire.EnvelopeSchemaVersion, Seq: seq, Event: wire.EventItemDelta, Kind: wire.EventItemDelta,
		SourceEventID: fmt.Sprintf("native_event_%d", seq), Timestamp: "2026-01-02T12:00:00.000Z",
		Payload: json.RawMessage(fmt.Sprintf(`{"kind":"agent_message","delta":"<%d>&\u2028é你🌍","n":1.50}`, seq)),
	}
}

// cutting is a gateway over real sockets that keeps what comes, acknowledges it, and
// drops each link at another frame.
type cutting struct {
	t      *testing.T
	server *server
	frames map[uint64][]byte // by seq, as they came first
	cursor uint64
}

// serve takes one link and drops it after that many envelopes, or goes on to the end.
func (c *cutting) serve(after int, last uint64) {
	conn := take(c.t, c.server.conns)
	defer func() { _ = conn.Close(link.Ending{Code: link.CloseRestart}) }()
	session, err := link.Open(c.t.Context(), conn, link.SessionOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	r := newRecorder()
	ended := make(chan error, 1)
	go func() { ended <- session.Serve(context.WithoutCancel(c.t.Context()), r) }()
	defer func() {
		_ = session.End(link.Ending{Code: link.CloseRestart})
		<-ended
	}()
	if err := session.Attach(c.t.Context(), attachOf("run_1", c.cursor)); err != nil {
		c.t.Fatal(err)
	}
	take(c.t, r.attached)
	next := c.cursor + 1
	for n := 1; n <= after && next <= last; n++ {
		c.keep(take(c.t, r.events), next)
		// Every other envelope is acknowledged, so some come again.
		if next++; n%2 == 0 {
			c.cursor = next - 1
			if err := session.Cursor(c.t.Context(), "run_1", c.cursor); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

func (c *cutting) keep(m wire.EventMessage, want uint64) {
	c.t.Helper()
	if m.Envelope.Seq != want {
		c.t.Fatalf("event %d, want %d", m.Envelope.Seq, want)
	}
	frame, err := wire.EncodeLink(m)
	if err != nil {
		c.t.Fatal(err)
	}
	// What the host journaled is not touched on its way.
	if journal := journaled(want).Payload; !bytes.Equal(m.Envelope.Payload, journal) {
		c.t.Errorf("event %d carries %s, journaled %s", want, m.Envelope.Payload, journal)
	}
	if before := c.frames[want]; before != nil && !bytes.Equal(before, frame) {
		c.t.Errorf("event %d came as %s and again as %s", want, before, frame)
	}
	c.frames[want] = frame
}

func TestRH48_RH49_RH50_WhatIsNotAcknowledgedComesAgainByteForByteAfterEveryCut(t *testing.T) {
	t.Parallel()
	const last = 40
	h := newScriptedHost()
	r := h.lookup("run_1")
	for seq := uint64(1); seq <= last; seq++ {
		r.journal = append(r.journal, journaled(seq))
	}
	gateway := &cutting{t: t, server: newServer(t, link.SocketOptions{}), frames: map[uint64][]byte{}}
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() {
		kept <- link.Keep(ctx, link.KeepOptions{Host: h, Dial: func(ctx context.Context) (link.Conn, error) {
			return link.Dial(ctx, link.DialOptions{URL: gateway.server.URL})
		}})
	}()
	for _, after := range []int{0, 1, 2, 3, 5} {
		gateway.serve(after, last)
	}
	gateway.serve(last, last)
	stop()
	if err := take(t, kept); err != nil {
		t.Errorf("ended with %v", err)
	}
	for seq := uint64(1); seq <= last; seq++ {
		want, err := wire.EncodeLink(wire.EventMessage{RunID: "run_1", Envelope: journaled(seq)})
		if err != nil {
			t.Fatal(err)
		}
		if got := gateway.frames[seq]; !bytes.Equal(got, want) {
			t.Errorf("event %d is %s, want %s", seq, got, want)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.together > 1 || r.open != r.closed {
		t.Errorf("%d attachments opened, %d closed, %d at once", r.open, r.closed, r.together)
	}
}

// RH46: what a host says of itself has these keys and no other, and nothing of its
// credential follows the handshake.
func TestRH46_WhatAHostTellsOfItself(t *testing.T) {
	t.Parallel()
	s := newServer(t, link.SocketOptions{})
	h := newScriptedHost()
	h.hello.ConfigGenerations, h.hello.ClockMs = []int{1, 2}, 1
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() {
		kept <- link.Keep(ctx, link.KeepOptions{Host: h, Dial: func(ctx context.Context) (link.Conn, error) {
			return link.Dial(ctx, link.DialOptions{URL: s.URL, Header: func(context.Context) (http.Header, error) {
				return http.Header{"Authorization": {wire.HostScheme + " canary"}}, nil
			}})
		}})
	}()
	request := take(t, s.requests)
	for key := range request.Header {
		if !slices.Contains([]string{"Authorization", "Connection", "Upgrade", "User-Agent", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version"}, key) {
			t.Errorf("the request has a header %s", key)
		}
	}
	conn := take(t, s.conns)
	m, err := conn.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	frame, err := wire.EncodeLink(m)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(frame, &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"type", "hostId", "name", "version", "protocols", "capabilities", "configGenerations", "clockMs"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no %s", key)
		}
		delete(keys, key)
	}
	if len(keys) > 0 || strings.Contains(string(frame), "canary") {
		t.Errorf("the hello says more: %s", frame)
	}
	stop()
	_ = conn.Close(link.Ending{})
	if err := take(t, kept); err != nil {
		t.Errorf("ended with %v", err)
	}
}
