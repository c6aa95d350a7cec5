package link

import (
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/relay/wire"
)

// Close codes of a link (protocol.md §1, §4).
const (
	CloseNormal       = 1000
	CloseGoingAway    = 1001
	CloseRestart      = 1012
	CloseProtocol     = 4400 // the other end broke the protocol
	CloseUnauthorized = 4401
	CloseForbidden    = 4403
	CloseTooSlow      = 4408
	CloseSuperseded   = 4409 // a newer link of the same host took over
	CloseTooLarge     = 4413
)

// Ending says how an end closes a link: a close code and a short reason that is
// safe to show. The zero Ending is the normal end.
type Ending struct {
	Code   int
	Reason string
}

func (e Ending) normal() bool { return e.Code == 0 || e.Code == CloseNormal }

// ErrClosed is what Send and Receive fail with once either end was closed.
var ErrClosed = errors.New("link: closed")

// EndedError is how the other end closed the link. It is ErrClosed.
type EndedError struct{ Ending }

func (e *EndedError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("link: closed by the other end with %d", e.Code)
	}
	return fmt.Sprintf("link: closed by the other end with %d: %s", e.Code, shown(e.Reason))
}

// Is makes an EndedError ErrClosed.
func (e *EndedError) Is(target error) bool { return target == ErrClosed }

// RevokedError is why a link ended whose host the gateway does not know any longer:
// it does not come back by itself.
type RevokedError struct{ Reason string }

func (e *RevokedError) Error() string {
	if e.Reason == "" {
		return "link: the gateway revoked this host"
	}
	return "link: the gateway revoked this host: " + shown(e.Reason)
}

// endingFor is how an end says why it gives a link up.
func endingFor(cause error) Ending {
	var misuse *ProtocolError
	switch {
	case errors.As(cause, &misuse):
		if misuse.code != 0 {
			return Ending{Code: misuse.code, Reason: misuse.What}
		}
		return Ending{Code: CloseProtocol, Reason: misuse.What}
	case errors.Is(cause, ErrSilent), errors.Is(cause, ErrStuck):
		return Ending{Code: CloseTooSlow, Reason: "silent"}
	}
	return Ending{}
}

// shown is text of the other end as it may be shown (RH64).
func shown(text string) string { return wire.ShownText(text) }
