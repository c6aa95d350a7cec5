package wire

import "unicode/utf8"

// MaxSteerBytes bounds the envelope of a steer, inclusive (decisions §2.12).
const MaxSteerBytes = 65_536

// Messages of a steer: a message that a person adds to a turn in progress
// (decisions §2.4). They pass only on links that negotiated CapabilitySteer.
type (
	// Steer offers a message to a running turn (gateway to host). The host lets
	// the response in progress finish, or with Now cuts it at once and keeps its
	// text, then makes one more provider request in the same turn with Text as the
	// next user message. The same DeliveryID again is the same steer; Now may be
	// raised by sending it again. TurnID is the virtual turn.
	Steer struct {
		RunID      string `json:"runId" validate:"required,relayid"`
		TurnID     string `json:"turnId" validate:"required,vturn"`
		DeliveryID string `json:"deliveryId" validate:"required,uuid"`
		Text       string `json:"text" validate:"required,utf8,nonul,notblank,maxbytes=65536"`
		Now        bool   `json:"now,omitempty"`
	}
	// Receipt settles a Steer (host to gateway): once the native turn has taken it
	// durably, or will never take it. A receipt may be lost or come twice; the end
	// of the turn lists what was taken (Outcome.Deliveries) and has the last word.
	Receipt struct {
		RunID      string         `json:"runId" validate:"required,relayid"`
		TurnID     string         `json:"turnId" validate:"required,vturn"`
		DeliveryID string         `json:"deliveryId" validate:"required,uuid"`
		Outcome    ReceiptOutcome `json:"outcome" validate:"required,oneof=delivered rejected"`
		// Reason says why it was rejected: ReasonTurnOver, ReasonTurnUnknown,
		// ReasonSteerTooLarge, ReasonSteerUnsupported.
		Reason string `json:"reason,omitempty" validate:"omitempty,maxbytes=64"`
		// At is how many bytes of answer text (agent_message deltas) the turn had
		// shown when it took the steer. Cut tells that the response before it was
		// cut short.
		At  uint64 `json:"at" validate:"max=9007199254740991"`
		Cut bool   `json:"cut,omitempty"`
	}
)

// ReceiptOutcome says what became of a steer.
type ReceiptOutcome string

// The outcomes of a steer.
const (
	ReceiptDelivered ReceiptOutcome = "delivered"
	ReceiptRejected  ReceiptOutcome = "rejected"
)

// Reasons of a rejected steer.
const (
	ReasonTurnOver         = "turn_over"
	ReasonTurnUnknown      = "turn_unknown"
	ReasonSteerTooLarge    = "payload_too_large"
	ReasonSteerUnsupported = "unsupported"
)

// Delivered is a steer that a turn took; see Receipt.
type Delivered struct {
	DeliveryID string `json:"deliveryId"`
	At         uint64 `json:"at"`
	Cut        bool   `json:"cut,omitempty"`
}

// ResponseUsage is what a provider reported for one of several responses of a
// turn.
type ResponseUsage struct {
	ResponseID string `json:"responseId"`
	Usage      Usage  `json:"usage"`
}

func (Steer) linkMessage()   {}
func (Receipt) linkMessage() {}

// SteerSize is the size that MaxSteerBytes bounds: the UTF-8 bytes of the compact
// JSON {"type":"active-input","deliveryId":…,"text":…} with the escapes that JSON
// demands and no others (SQ42).
func SteerSize(deliveryID, text string) int {
	return len(`{"type":"active-input","deliveryId":"","text":""}`) + escapedSize(deliveryID) + escapedSize(text)
}

func escapedSize(s string) int {
	n := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			n, i = n+2, i+1
		case c < 0x20:
			n, i = n+6, i+1
		case c < utf8.RuneSelf:
			n, i = n+1, i+1
		default:
			_, size := utf8.DecodeRuneInString(s[i:])
			n, i = n+size, i+size
		}
	}
	return n
}
