package link_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// transport joins a host's and a gateway's end.
type transport func(t *testing.T) (host, gateway link.Conn)

// overEach runs a test over each transport: what holds of a link holds over all.
func overEach(t *testing.T, test func(t *testing.T, over transport)) {
	t.Helper()
	for name, over := range map[string]transport{"pipe": overPipe, "websocket": overWebSocket} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, over)
		})
	}
}

func overPipe(*testing.T) (host, gateway link.Conn) { return link.Pipe() }

// overWebSocket goes over a socket of this machine.
func overWebSocket(t *testing.T) (host, gateway link.Conn) {
	t.Helper()
	server := newServer(t, link.SocketOptions{})
	host, err := link.Dial(t.Context(), link.DialOptions{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return host, take(t, server.conns)
}

// server is a gateway's HTTP server that accepts every link. What a test leaves open
// is closed with it.
type server struct {
	*httptest.Server
	conns    chan link.Conn
	requests chan *http.Request
}

func newServer(t *testing.T, o link.SocketOptions) *server {
	t.Helper()
	s := &server{conns: make(chan link.Conn, 64), requests: make(chan *http.Request, 64)}
	var mu sync.Mutex
	var accepted []link.Conn
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := link.Accept(w, r, o)
		if err != nil {
			return // the host was told
		}
		mu.Lock()
		accepted = append(accepted, conn)
		mu.Unlock()
		s.requests <- r
		s.conns <- conn
	}))
	t.Cleanup(func() {
		s.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range accepted {
			_ = conn.Close(link.Ending{})
		}
	})
	return s
}

// linked is a scripted host and a gateway's end over a real transport.
type linked struct {
	*scriptedHost
	*recorder
	session *link.Session
	// hostEnds and gatewayEnds give how each end's Serve returned.
	hostEnds, gatewayEnds chan error
	stopHost, stopGateway context.CancelFunc
}

func (over transport) open(t *testing.T, h *scriptedHost) *linked {
	t.Helper()
	hostConn, gatewayConn := over(t)
	l := &linked{scriptedHost: h, recorder: newRecorder(), hostEnds: make(chan error, 1), gatewayEnds: make(chan error, 1)}
	hostCtx, stopHost := context.WithCancel(t.Context())
	gatewayCtx, stopGateway := context.WithCancel(t.Context())
	l.stopHost, l.stopGateway = stopHost, stopGateway
	var ends sync.WaitGroup
	ends.Go(func() { l.hostEnds <- link.ServeHost(hostCtx, hostConn, h, link.HostOptions{}) })
	session, err := link.Open(gatewayCtx, gatewayConn, link.SessionOptions{
		Capabilities: []string{wire.CapabilityReasoning, wire.CapabilityOutcome, wire.CapabilityContinueFrom, wire.CapabilitySteer},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.session = session
	ends.Go(func() { l.gatewayEnds <- session.Serve(gatewayCtx, l.recorder) })
	t.Cleanup(func() {
		stopHost()
		stopGateway()
		ends.Wait()
	})
	return l
}

// attach attaches a run and waits for the answer.
func (l *linked) attach(t *testing.T, runID string, cursor uint64) {
	t.Helper()
	if err := l.session.Attach(t.Context(), attachOf(runID, cursor)); err != nil {
		t.Fatal(err)
	}
	if got := take(t, l.attached); got.RunID != runID {
		t.Fatalf("attached %q, want %q", got.RunID, runID)
	}
}

func (l *linked) command(t *testing.T, runID string, seq uint64) {
	t.Helper()
	if err := l.session.Command(t.Context(), wire.CommandMessage{RunID: runID, Seq: seq, Command: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
}

func attachOf(runID string, cursor uint64) wire.Attach {
	return wire.Attach{
		TargetRef: "target_1", SessionID: "chat:" + runID, AccountRef: "account_1", RunID: runID, WorkspaceID: "workspace_1", Cursor: cursor,
	}
}
