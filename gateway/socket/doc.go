// Package socket serves fairlead.client.v1, the WebSocket of browsers, programs
// and admins: it decodes commands, checks their shape, asks the services and
// pushes what changes. It owns no data. What it knows of a session is gone with
// it; a client resumes from the log.
//
// # A session
//
// A session has at most three goroutines, of which an idle one runs the first
// alone:
//
//   - the reader reads frames, answers what is no command, and puts commands into
//     the session's line. It never waits for a service or for the peer. When the
//     connection ends it ends the subscriptions and leaves last;
//   - the worker takes the line's commands one after the other, in the order in
//     which they came, so that two messages of one person never change places. It
//     runs what was received to its end also when the peer has gone: what was sent
//     before a tab was closed counts;
//   - the writer is the only one who writes messages. It drains the session's
//     queue with one system call per turn and one frame per message.
//
// Everybody else (replies, publishers on the bus, the pinger) puts bytes into
// the queue and goes on. The queue is bounded in bytes: a reader who is too slow
// loses the connection (4408), never a message, and nobody waits for it (F10).
//
// # Subscriptions
//
// A push is encoded once, by its publisher, and shared by all sessions. Beside
// its bytes it carries where it stands: sequence numbers of events, offsets of
// text. thread.open first subscribes and holds back what comes, then asks the
// chat for the state, sends the reply, and lets through what lies beyond it:
// without gap, without overlap, and no text of a turn after its end. The same
// check runs for every later push, so that a bus that says something twice does
// no harm.
//
// # Locks
//
// In this order: the mutex of a subscription, session.mu (and within it that of
// the feed), those of the queue and the line. Server.mu comes before all of them
// and is held while a new session's first frame is queued. Handlers on the bus
// take no others, and block on none for longer than it takes to copy a few words.
// No lock is held while the chat, the bus or the network is called, but for a
// connection's own write lock and, while a dashboard is rendered, that of its
// follower.
package socket
