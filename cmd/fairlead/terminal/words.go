package terminal

import (
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
	"github.com/fairlead/fairlead/relay/wire"
)

// causes say in words what a code means.
func causes() map[string]string {
	return map[string]string{
		"model_rate_limited": "the provider asks for a pause", "model_overloaded": "the provider is overloaded",
		"model_unreachable": "the provider could not be reached", "model_credential_invalid": "the provider refused the key",
		"model_not_found": "the provider does not know this model", "model_request_refused": "the provider refused the request",
		"model_refused": "the model declined to answer", "model_stream_cut": "the answer broke off",
		"model_stream_invalid": "the answer was damaged", "model_stalled": "the provider fell silent",
		"model_output_incomplete": "the output limit cut the answer", "model_output_empty": "the model answered with nothing",
		"model_tool_call_unsupported": "the model asked for a tool", "model_failed": "the provider reported an error",
		"no_host": "no host is set up to run models", "host_offline": "the host is offline", "host_lost": "the host went away",
		"host_draining": "the host takes no new messages now", "host_outdated": "waiting for the host to be updated",
		"host_restarted": "the host restarted during the answer", "turn_deadline": "the answer took longer than allowed",
		"route_unavailable": "no provider of this model is ready", "insufficient_credits": "the organisation has no credits left",
		"quota_exhausted": "the limit for today is reached", "no_room": "waiting for a free place on the host",
		"route_cooling": "the provider asked for a pause", "org_queue": "waiting for a free place in the organisation",
		"cancelling": "stopping", "turn_ended": "the answer had just ended; this message goes next",
		"payload_too_large": "too long to steer; it waits", "steer_unsupported": "the host takes no steers; it waits",
		"not_recallable": "this message does not wait any more", "turn_not_active": "the answer has ended already",
		"tool_call_ignored": "the model asked for a tool, which is never run", "refused_in_part": "the model declined a part",
	}
}

// explain says what a code means, the code behind it.
func explain(code string) string {
	if cause, ok := causes()[code]; ok {
		return cause + " (" + code + ")"
	}
	return strings.ReplaceAll(code, "_", " ")
}

// refusal says why a command was refused.
func refusal(e *wire.Error) string {
	text := e.Message
	if text == "" {
		text = explain(string(e.Code))
	} else {
		text += " (" + string(e.Code) + ")"
	}
	for _, f := range e.Fields {
		text += fmt.Sprintf("; %s: %s", f.Path, f.Rule)
	}
	return text
}

// ending says how a turn ended; "" for one that simply completed.
func ending(e *client.Event) string {
	switch e.EventType {
	case client.TurnCompleted:
		if e.Finish == "" {
			return ""
		}
		return explain(e.Finish)
	case client.TurnCancelled:
		if e.Reason == "ended_by_admin" {
			return "stopped by an admin"
		}
		return "stopped"
	case client.TurnTimeout:
		if e.Error == string(wire.CodeHostLost) {
			return "broke off: " + explain(e.Error)
		}
		return "ran out of time: " + explain(e.Error)
	}
	text := "failed: " + explain(e.Error)
	if e.RetryAt != "" {
		text += ", again after " + e.RetryAt
	}
	return text
}

// title is how a thread is called in a list.
func title(t client.ThreadInfo) string {
	if t.Title != nil && strings.TrimSpace(*t.Title) != "" {
		return Line(*t.Title)
	}
	return "(no title)"
}
