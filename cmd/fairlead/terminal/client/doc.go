// Package client is one account's end of fairlead.client.v1, without any drawing.
//
// Line holds the connection: it dials, reads, writes, notices a line that fell
// silent, and comes back as the close code asks. Session is what is known on top
// of it: the commands that have no reply yet, the open thread and where to resume
// it. A Session does no I/O and starts no goroutine; frames and commands go in,
// frames to write and what to tell the person come out. Its owner joins the two:
// what Line brings goes into the Session, what the Session says goes to Line.
//
// What is promised:
//   - A command is kept until its reply and said again after every reconnect under
//     the same clientEventId, so that it happens once. Messages reach the server in
//     the order in which they were sent.
//   - Every event is told once, in the order of the log, and every byte of an
//     answer once, over any number of cuts.
//   - A command that the server puts off (rate_limited, shutting_down, a full
//     disk) is said again after the pause that it asked for.
package client
