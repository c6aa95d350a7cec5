// Package control is a client for control planes: programs that drive turns at relay
// hosts through a gateway, over GET /ws/control (docs/control-plane.md).
//
// Dial opens the connection and keeps it: when it breaks, the client dials again with
// a growing pause, attaches every run from where its caller stands, and sends again,
// under the same sequence numbers and byte for byte, what was not acknowledged. A turn
// goes on while nobody is connected.
//
//	client, err := control.Dial(ctx, control.Options{URL: "https://chat.example", Token: token})
//	run, err := client.Attach(ctx, control.Attachment{TargetRef: …, Cursor: stored})
//	ack, err := run.Prompt(ctx, wire.PromptRequest{…})
//	for envelope, err := range run.Events(ctx) {
//		… store the envelope, then
//		run.Acknowledge(envelope.Seq)
//	}
//
// # What the caller keeps
//
// The client holds nothing durable. A program that is to survive its own end stores,
// per run: the Seq of the newest envelope that it stored (Attachment.Cursor), and the
// ids of a prompt before it sends it. Whatever is not acknowledged comes again, byte
// for byte, after the next attach; once in a while, after a crash of the host, under a
// new Seq but with the SourceEventID that it had. Within a process the client drops
// both kinds of repetition; across processes SourceEventID is the key to store under.
//
// # Goroutines
//
// A Client has one goroutine that connects and reads, and while it is connected one
// that writes and one that pings. Close waits for them. Envelopes wait in memory for
// their reader: a host sends no more than 256 of a run, or 4 MiB, ahead of its cursor.
package control
