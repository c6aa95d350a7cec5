package wire

import "encoding/json"

// HostProtocol is the subprotocol of a link between a host and a gateway.
const HostProtocol = "fairlead.host.v1"

// LinkMessage is one message of a link (protocol.md §4). The set is closed.
type LinkMessage interface{ linkMessage() }

// Messages of a host.
type (
	// Hello opens a link.
	Hello struct {
		HostID       string   `json:"hostId" validate:"required,relayid"`
		Name         string   `json:"name" validate:"required,utf8,nonul,maxbytes=256"`
		Version      string   `json:"version" validate:"required,maxbytes=64"`
		Protocols    []string `json:"protocols" validate:"required,max=16,dive,required,maxbytes=64"`
		Capabilities []string `json:"capabilities" validate:"present,max=64,dive,required,maxbytes=64"`
		// ConfigGenerations are the generations of a turn's settings that the host
		// understands (AD78, FR38); none means only the first.
		ConfigGenerations []int `json:"configGenerations,omitempty" validate:"max=16,dive,min=1"`
		ClockMs           int64 `json:"clockMs"`
		// Owing are runs of which the host holds unsettled turns, or integrity envelopes
		// that nobody has acknowledged, MaxOwing at most. The gateway may have it all:
		// then only an attach with its cursor tells the host so.
		Owing []Owing `json:"owing,omitempty" validate:"max=1000,dive"`
	}
	// Owing names the last integrity envelope of a run that is not acknowledged, 0 for
	// none, and how many of its turns are unsettled: their ends come, perhaps once more,
	// after an attach.
	Owing struct {
		RunID string `json:"runId" validate:"required,relayid"`
		Seq   uint64 `json:"seq,omitempty" validate:"max=9007199254740991"`
		Turns int    `json:"turns,omitempty" validate:"min=0"`
	}
	// Attached answers Attach: RuntimeCursor is the highest sequence number that
	// the host knows to be acknowledged for the run.
	Attached struct {
		RunID         string `json:"runId" validate:"required,relayid"`
		RuntimeCursor uint64 `json:"runtimeCursor" validate:"present,max=9007199254740991"`
	}
	// Refused answers Attach.
	Refused struct {
		RunID string     `json:"runId" validate:"required,relayid"`
		Error *ErrorBody `json:"error" validate:"required"`
	}
	// Ack answers CommandMessage. Status is AckApplied or AckFailed. CommandType is
	// empty for a command that is not of a known type.
	Ack struct {
		RunID       string     `json:"runId" validate:"required,relayid"`
		CommandSeq  uint64     `json:"commandSeq" validate:"required,max=9007199254740991"`
		CommandType string     `json:"commandType" validate:"present,maxbytes=64"`
		Status      string     `json:"status" validate:"required,oneof=applied failed"`
		TurnID      string     `json:"turnId,omitempty"`
		Error       *ErrorBody `json:"error,omitempty"`
	}
	// EventMessage carries one envelope of a run.
	EventMessage struct {
		RunID    string   `json:"runId" validate:"required,relayid"`
		Envelope Envelope `json:"envelope" validate:"present"`
	}
	// Room says how many provider requests run and how many may.
	Room struct {
		Inflight int `json:"inflight" validate:"present,min=0"`
		Max      int `json:"max" validate:"present,min=0"`
	}
	// CatalogMessage answers CatalogRequest, and is sent again unasked, with the
	// last challenge, when a route's readiness changes.
	CatalogMessage struct {
		Challenge string  `json:"challenge" validate:"required,challenge"`
		Catalog   Catalog `json:"catalog"`
		// Routes holds every configured route, ready or not, in configured order.
		Routes []Route `json:"routes"`
		// Error is set in place of Catalog when no catalog can be made (RH16, RH17).
		Error *ErrorBody `json:"error,omitempty"`
	}
	// Heartbeat goes both ways. EchoMs is ClockMs of the peer's last one and HeldMs
	// how long ago that came, so that the peer knows the round trip and, from it, how
	// far the two clocks are apart; both are 0 while there was none.
	Heartbeat struct {
		ClockMs int64 `json:"clockMs"`
		EchoMs  int64 `json:"echoMs,omitempty"`
		HeldMs  int64 `json:"heldMs,omitempty"`
	}
	// Draining tells that the host takes no new prompt any more and leaves once its
	// turns have ended and are acknowledged (RH62).
	Draining struct {
		Reason string `json:"reason" validate:"maxbytes=800"`
	}
	// Offline is the last word of a host that leaves in good order.
	Offline struct {
		Reason string `json:"reason" validate:"maxbytes=800"`
	}
)

// Messages of a gateway.
type (
	// Welcome answers Hello. Capabilities are those of the host's that the
	// gateway takes up.
	Welcome struct {
		Protocol     string   `json:"protocol" validate:"required,maxbytes=64"`
		Capabilities []string `json:"capabilities" validate:"present,max=64,dive,required,maxbytes=64"`
		HeartbeatMs  int64    `json:"heartbeatMs" validate:"required,min=1"`
	}
	// Attach binds an account to a scope and authorises one run in it (RH47).
	Attach struct {
		TargetRef   string `json:"targetRef" validate:"required,owner"`
		SessionID   string `json:"sessionId" validate:"required,owner"`
		AccountRef  string `json:"accountRef" validate:"required,owner"`
		RunID       string `json:"runId" validate:"required,relayid"`
		WorkspaceID string `json:"workspaceId" validate:"required,relayid"`
		// Cursor is the highest sequence number that the gateway holds durably.
		Cursor uint64 `json:"cursor" validate:"present,max=9007199254740991"`
		// Challenge, where it is set, has the host journal its catalog into the run as
		// a runtime.catalog event (RH15, RH47, RH60).
		Challenge string `json:"challenge,omitempty" validate:"omitempty,challenge"`
	}
	// CommandMessage carries one command; Seq is per run and rises.
	CommandMessage struct {
		RunID   string          `json:"runId" validate:"required,relayid"`
		Seq     uint64          `json:"seq" validate:"required,max=9007199254740991"`
		Command json.RawMessage `json:"command" validate:"required"`
	}
	// CursorMessage retires the envelopes up to Cursor (RH49).
	CursorMessage struct {
		RunID  string `json:"runId" validate:"required,relayid"`
		Cursor uint64 `json:"cursor" validate:"present,max=9007199254740991"`
	}
	// Detach ends an attachment; the scope keeps its state.
	Detach struct {
		RunID string `json:"runId" validate:"required,relayid"`
	}
	// CatalogRequest asks for the catalog (RH15).
	CatalogRequest struct {
		Challenge string `json:"challenge" validate:"required,challenge"`
	}
	// Drain asks the host to drain: to take no new prompt, and to stay linked.
	// Resume set takes that back.
	Drain struct {
		Reason string `json:"reason" validate:"maxbytes=800"`
		Resume bool   `json:"resume,omitempty"`
	}
	// Revoked is the last word to a host whose credential was revoked: it does not
	// come back by itself.
	Revoked struct {
		Reason string `json:"reason" validate:"maxbytes=800"`
	}
	// Goaway tells that the gateway ends the link, and after how long to return.
	Goaway struct {
		Reason       string `json:"reason" validate:"maxbytes=800"`
		RetryAfterMs int64  `json:"retryAfterMs" validate:"min=0"`
	}
)

// MaxOwing is how many runs a Hello names.
const MaxOwing = 1000

// Statuses of an Ack. A chat command is never merely accepted (RH53).
const (
	AckApplied = "applied"
	AckFailed  = "failed"
)

// Route is one model of one provider as people may choose it. It holds no key,
// URL or path.
type Route struct {
	ModelProvider   string  `json:"modelProvider"`
	ModelProviderID string  `json:"modelProviderId"`
	DisplayName     string  `json:"displayName"`
	Model           string  `json:"model"`
	Family          string  `json:"family"`
	Ready           bool    `json:"ready"`
	Reason          string  `json:"reason,omitempty"`
	AvailableAt     string  `json:"availableAt,omitempty"` // RFC 3339, while the route cools down
	ImageInput      Support `json:"imageInput"`
	OutputLimit     Support `json:"maxOutputTokens"`
	Reasoning       Support `json:"reasoningEffort"`
	// ReasoningLevels are canonical effort names, `off` left out.
	ReasoningLevels []string `json:"reasoningEffortLevels"`
	Default         bool     `json:"default"`
}

func (Hello) linkMessage()          {}
func (Attached) linkMessage()       {}
func (Refused) linkMessage()        {}
func (Ack) linkMessage()            {}
func (EventMessage) linkMessage()   {}
func (Room) linkMessage()           {}
func (CatalogMessage) linkMessage() {}
func (Heartbeat) linkMessage()      {}
func (Offline) linkMessage()        {}
func (Welcome) linkMessage()        {}
func (Attach) linkMessage()         {}
func (CommandMessage) linkMessage() {}
func (CursorMessage) linkMessage()  {}
func (Detach) linkMessage()         {}
func (CatalogRequest) linkMessage() {}
func (Draining) linkMessage()       {}
func (Drain) linkMessage()          {}
func (Revoked) linkMessage()        {}
func (Goaway) linkMessage()         {}
