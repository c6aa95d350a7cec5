package gateway

import "github.com/fairlead/fairlead/relay/wire"

// ChatSession begins the session ids of the gateway's own chat at every host. No
// control plane may use one that begins so.
const ChatSession = "chat:"

// Runner is a linked relay host as control planes see it.
type Runner struct {
	HostID       string   `json:"hostId"`
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	Capabilities []string `json:"capabilities"`
	TargetRef    string   `json:"targetRef"`
}

// ControlEvents is told what a host says of the runs of one control plane. Its
// methods must not block, and must not call the Control that they are told by. Each
// run's come one at a time, in the order of the link; those of an attachment that
// was replaced are left out.
type ControlEvents interface {
	// Attached answers an attach; events that follow it are of the new attachment.
	Attached(wire.Attached)
	// Refused answers an attach or ends an attachment; with code superseded because a
	// newer connection of the same account took the run over.
	Refused(wire.Refused)
	Ack(wire.Ack)
	Event(wire.EventMessage)
	// Gone tells that the host's link has ended: the run is not attached any more.
	Gone(runID string)
}
