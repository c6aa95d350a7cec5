package terminal

import (
	"testing"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
)

func TestEnding_SaysWhoOrWhatEndedATurn(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]client.Event{
		"":                    {EventType: client.TurnCompleted},
		"stopped":             {EventType: client.TurnCancelled, Reason: "interrupted"},
		"stopped by an admin": {EventType: client.TurnCancelled, Reason: "ended_by_admin"},
		"broke off: the host went away (host_lost)":                                     {EventType: client.TurnTimeout, Error: "host_lost"},
		"ran out of time: the answer took longer than allowed (turn_deadline)":          {EventType: client.TurnTimeout, Error: "turn_deadline"},
		"failed: the provider asks for a pause (model_rate_limited), again after 12:00": {EventType: client.TurnFailed, Error: "model_rate_limited", RetryAt: "12:00"},
	} {
		if got := ending(&e); got != want {
			t.Errorf("%s %s %s reads %q, want %q", e.EventType, e.Reason, e.Error, got, want)
		}
	}
}
