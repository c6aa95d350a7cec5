package socket

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// ServeHTTP serves GET /ws. Until the upgrade a refusal is an HTTP answer with
// the error object: 401, 403, 400, 426 or 503. It returns once the session runs,
// so that the request and its buffers are free.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	actor, err := s.cfg.Authenticate(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if !upgrades(r) {
		askForUpgrade(w, Protocol)
		return
	}
	if err := s.admit(r, actor); err != nil {
		s.refuse(w, r, err)
		return
	}
	account, err := s.cfg.Account(r.Context(), actor)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.upgrade(w, r, actor, Protocol, func(sess *session) []byte { return encode(s.welcome(sess.id, account)) })
}

func askForUpgrade(w http.ResponseWriter, protocol string) {
	w.Header().Set("Upgrade", "websocket")
	w.Header().Set("Connection", "Upgrade")
	writeRefusal(w, http.StatusUpgradeRequired,
		wire.NewError(wire.CodeBadRequest, "This address speaks WebSocket, subprotocol "+protocol+"."))
}

// admit checks all that is left to check of an upgrade.
func (s *Server) admit(r *http.Request, actor gateway.Actor) error {
	if !actor.May(gateway.ScopeChat) {
		return wire.NewError(wire.CodeForbidden, "This credential may not use the chat.")
	}
	if r.Header.Get("Authorization") == "" && !s.cfg.CheckOrigin(r) {
		return wire.NewError(wire.CodeForbidden, "Pages of this origin may not use your session.")
	}
	return s.admitHandshake(r, Protocol)
}

func (s *Server) admitHandshake(r *http.Request, protocol string) error {
	if !offers(r, protocol) {
		return wire.NewError(wire.CodeBadRequest, "The client must offer the subprotocol "+protocol+".")
	}
	if !validHandshake(r) {
		return wire.NewError(wire.CodeBadRequest, "This is not a WebSocket handshake of version 13.")
	}
	if s.isDraining() {
		return shuttingDown(s.limits.RetryAfter)
	}
	return nil
}

// upgrade starts a session; begin readies it and gives its first frame, nil for none.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, actor gateway.Actor, protocol string, begin func(*session) []byte) {
	h := &hijack{ResponseWriter: w, timeout: s.limits.WriteTimeout, corks: &s.corks}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		Subprotocols:       []string{protocol},
		InsecureSkipVerify: true, // admit has compared the whole origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		s.log.WarnContext(r.Context(), "socket: upgrade failed", "error", err)
		return
	}
	ws.SetReadLimit(-1) // the reader counts, and answers what is too large
	sess := newSession(s, ws, h.conn, actor)
	if !s.add(sess, begin(sess)) {
		_ = ws.Close(closeGoing.code, closeGoing.reason)
		sess.release()
		return
	}
	sess.watchCredential()
	// Between the first look at the credential and the watch it may have ended.
	if _, err := s.cfg.Authenticate(r); err != nil {
		sess.close(closeCredential)
	}
}

// refuse answers an error before the upgrade. What the caller must not see is in
// the log alone.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := wire.AsError(err)
	status := gateway.HTTPStatus(e.Code)
	if status == http.StatusInternalServerError || e.Code == wire.CodeStorageUnavailable {
		s.log.ErrorContext(r.Context(), "socket: upgrade refused", "error", err)
	}
	writeRefusal(w, status, e)
}

func writeRefusal(w http.ResponseWriter, status int, e *wire.Error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(encode(struct {
		Error *wire.ErrorBody `json:"error"`
	}{e.Body()})) // a client that is gone needs no answer
}

// originList allows exactly the origins of a list. A page without one is not a
// page.
func originList(allowed []string) func(*http.Request) bool {
	known := make(map[string]bool, len(allowed))
	for _, origin := range allowed {
		known[canonicalOrigin(origin)] = true
	}
	return func(r *http.Request) bool {
		origins := r.Header.Values("Origin")
		return len(origins) == 1 && origins[0] != "" && known[canonicalOrigin(origins[0])]
	}
}

// canonicalOrigin is an origin in lower case without a default port; what is no
// origin becomes what no list holds.
func canonicalOrigin(origin string) string {
	u, err := url.Parse(strings.ToLower(origin))
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "\x00"
	}
	host := u.Host
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host
}

func upgrades(r *http.Request) bool {
	return r.ProtoAtLeast(1, 1) && hasToken(r, "Connection", "upgrade") && hasToken(r, "Upgrade", "websocket")
}

func offers(r *http.Request, protocol string) bool {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for token := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(token) == protocol {
				return true
			}
		}
	}
	return false
}

func validHandshake(r *http.Request) bool {
	keys := r.Header.Values("Sec-WebSocket-Key")
	if r.Method != http.MethodGet || r.Header.Get("Sec-WebSocket-Version") != "13" || len(keys) != 1 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0]))
	return err == nil && len(key) == 16
}

func hasToken(r *http.Request, header, want string) bool {
	for _, line := range r.Header.Values(header) {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), want) {
				return true
			}
		}
	}
	return false
}

// welcome is the first push of a session.
type welcome struct {
	Type         string         `json:"type"`
	Protocol     string         `json:"protocol"`
	ConnectionID string         `json:"connectionId"`
	Account      welcomeAccount `json:"account"`
	ServerTime   gateway.Time   `json:"serverTime"`
	Epoch        string         `json:"epoch"`
	Limits       welcomeLimits  `json:"limits"`
	PingMs       int64          `json:"pingMs"`
}

type welcomeAccount struct {
	ID    string       `json:"id"`
	Name  string       `json:"name"`
	OrgID string       `json:"orgId"`
	Role  gateway.Role `json:"role"`
}

type welcomeLimits struct {
	FrameBytes        int `json:"frameBytes"`
	PromptBytes       int `json:"promptBytes"`
	SteerBytes        int `json:"steerBytes"`
	QueuedPerThread   int `json:"queuedPerThread"`
	CommandsPerSecond int `json:"commandsPerSecond"`
	InFlight          int `json:"inFlight"`
	OpenThreads       int `json:"openThreads"`
}

func (s *Server) welcome(connectionID string, a gateway.Account) welcome {
	return welcome{
		Type: "welcome", Protocol: Protocol, ConnectionID: connectionID,
		Account:    welcomeAccount{ID: a.ID, Name: a.Name, OrgID: a.OrgID, Role: a.Role},
		ServerTime: gateway.Time{Time: s.now()}, Epoch: s.cfg.Epoch,
		Limits: welcomeLimits{
			FrameBytes: gateway.MaxFrameBytes, PromptBytes: wire.MaxPromptBytes, SteerBytes: wire.MaxSteerBytes,
			QueuedPerThread:   gateway.MaxQueuedPerThread,
			CommandsPerSecond: s.limits.CommandsPerSecond, InFlight: s.limits.InFlight, OpenThreads: s.limits.OpenThreads,
		},
		PingMs: s.limits.PingEvery.Milliseconds(),
	}
}

// newConnectionID names a session in the welcome and in the log.
func newConnectionID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system has no randomness; the id is only a name
		return uuid.Nil.String()
	}
	return id.String()
}
