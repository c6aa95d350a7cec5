package link

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

// SocketOptions are the settings of a WebSocket.
type SocketOptions struct {
	// WriteTimeout is how long the other end may take nothing of what is written; 0 is
	// 30 seconds.
	WriteTimeout time.Duration
}

// Accept makes the gateway's end of a link out of a request that the caller has
// authenticated. A request that is no handshake, or for another protocol, is answered
// (426, 400) and gives the *wire.Error that it was answered with. The Conn lives on
// when the handler returns.
func Accept(w http.ResponseWriter, r *http.Request, o SocketOptions) (Conn, error) {
	if !upgrades(r) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		return nil, refuse(w, http.StatusUpgradeRequired, "This address speaks WebSocket, subprotocol "+wire.HostProtocol+".")
	}
	if offered := offers(r); !contains(offered, wire.HostProtocol) {
		return nil, refuse(w, http.StatusBadRequest, fmt.Sprintf(
			"This gateway speaks %s, the host offers %s.", wire.HostProtocol, named(offered)))
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = writeTimeout
	}
	h := &hijack{ResponseWriter: w, timeout: o.WriteTimeout}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		Subprotocols:       []string{wire.HostProtocol},
		InsecureSkipVerify: true, // hosts are no pages, and the caller has their credential
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, wire.WrapError(wire.CodeBadRequest, "This is not a WebSocket handshake.", err)
	}
	return newSocket(ws, h.guard), nil
}

func refuse(w http.ResponseWriter, status int, message string) error {
	e := wire.NewError(wire.CodeBadRequest, message)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer{Error: e.Body()}) // a host that is gone needs none
	return e
}

// answer is an HTTP answer with an error.
type answer struct {
	Error *wire.ErrorBody `json:"error"`
}

func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoAtLeast(1, 1) &&
		contains(tokens(r, "Connection"), "upgrade") && contains(tokens(r, "Upgrade"), "websocket")
}

func offers(r *http.Request) []string { return tokens(r, "Sec-WebSocket-Protocol") }

func tokens(r *http.Request, header string) []string {
	var list []string
	for _, line := range r.Header.Values(header) {
		for token := range strings.SplitSeq(line, ",") {
			list = append(list, strings.TrimSpace(token))
		}
	}
	return list
}

func contains(list []string, want string) bool {
	for _, token := range list {
		if strings.EqualFold(token, want) {
			return true
		}
	}
	return false
}

// named lists protocols as they may be shown.
func named(protocols []string) string {
	if len(protocols) == 0 {
		return "none"
	}
	return shown(strings.Join(protocols, ", "))
}

// hijack hands the WebSocket library a connection with a guard.
type hijack struct {
	http.ResponseWriter
	timeout time.Duration
	guard   *guard
}

func (h *hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.guard = &guard{ReadWriteCloser: raw, timeout: h.timeout}
	conn := guardedConn{Conn: raw, guard: h.guard}
	// net/http's own buffers would go past the guard. The library asks the reader
	// alone for what was read ahead, and reads on from conn.
	return conn, bufio.NewReadWriter(rw.Reader, bufio.NewWriter(conn)), nil
}
