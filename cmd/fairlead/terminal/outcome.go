package terminal

import (
	"errors"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
	"github.com/fairlead/fairlead/relay/wire"
)

// Outcome is how a message that was sent for a script ended.
type Outcome string

// The outcomes.
const (
	Completed Outcome = "completed"
	Failed    Outcome = "failed"
	Stopped   Outcome = "stopped"
	TimedOut  Outcome = "timeout"
	Refused   Outcome = "refused" // no turn was made, or the message was taken back
)

// outcomeOf gives the outcome of the message, "" while there is none.
func outcomeOf(t *client.Thread, eventID string) Outcome {
	m := t.Message(eventID)
	if m == nil {
		return ""
	}
	if m.Fate == client.Recalled || m.Fate == client.Refused {
		return Refused
	}
	turn := t.Turn(m.TurnID)
	if turn == nil || turn.End == nil {
		return ""
	}
	switch turn.End.EventType {
	case client.TurnCompleted:
		return Completed
	case client.TurnCancelled:
		return Stopped
	case client.TurnTimeout:
		return TimedOut
	}
	return Failed
}

// refusalCode is why the message never became a turn, "" if it may or did.
func refusalCode(t *client.Thread, eventID string) string {
	if m := t.Message(eventID); m != nil && m.Fate == client.Refused {
		return m.Error
	}
	return ""
}

// Refusal says why the server refused a command; ok is false for any other error.
func Refusal(err error) (text string, ok bool) {
	var e *wire.Error
	if !errors.As(err, &e) {
		return "", false
	}
	return Line(refusal(e)), true
}
