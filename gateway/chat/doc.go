// Package chat is the control plane of conversations: threads with their
// append-only logs, the queue of waiting messages, turns, and what hosts are told
// about them. It implements gateway.Ledger.
//
// # A message
//
// Every message is queued first, also in an idle thread (CG67). Accepting one is
// one transaction: it spends the client event id, appends the original
// input.prompt and stores the queue item. Claiming is what takes the head of the
// queue: it makes the turn, appends the replacement event, writes the command for
// the host and removes the item, in one transaction too. For an idle thread both
// are the same transaction; else the claim follows the end of the turn before. A
// crash between them leaves an idle thread with a waiting message, which Start
// and every sweep look for. No turn exists without the message that it took (SQ1).
//
// A client event id is looked up before anything else. Who is second, in time or
// at the same moment, gets the reply of the first.
//
// # A turn
//
//	pending → running → completed | failed | cancelled | timeout
//
// One turn of a thread is not final at most: the schema refuses a second. The
// first final write wins; whoever comes later finds it and changes nothing but
// usage. A cancelled turn that its host may know of holds the thread closed
// (recovering) until the host tells its end, or for a limited time.
//
// # The text of a turn
//
// While a turn runs its text lives in memory (live), in offsets of bytes that
// stand for the same byte for ever. Intake publishes a delta at once and hands it
// to the run's pipe, which stores everything that has gathered in one transaction
// after the other; a host's cursor moves after that. The end of a turn goes the
// same way, so it is stored with or after all text before it, and told after it
// is stored. A restart loads the text of live turns again and drops what hosts
// send twice by the ids of their native events.
//
// Whoever ends a turn other than its host holds the turn's gate across the
// transaction: no delta is published between the text that is kept and the
// terminal event, and none after it.
//
// # A steer
//
// A message with mode steer waits in the queue too, and is offered to the running
// turn: Poll reserves the first one (a delivery), Receipt or the end of the turn
// settles it. Reserved it cannot be taken back, and only three things can become
// of it: the turn took it (its replacement in the log names the turn, and stands
// behind output events for all text before it); the turn ended without it, so it
// is the next message of its thread; or the turn was cancelled, then it is held,
// and the thread closed, until the host says which. A warning of a deadline goes
// the same way, but is never queued.
//
// # Locks and goroutines
//
// Transactions take explicit locks in the order org, thread, turn, queue row. In
// memory the order is live.gate, then live.mu; the writer's callbacks (OnCommit)
// take live.mu and the registry's lock only, so holding a gate across a
// transaction is safe. What a transaction has to tell is published from its
// OnCommit, hence in commit order. Each run with unstored envelopes has one
// goroutine (pipe.run), each thread to be looked at after a commit a short one;
// the sweeper is one more. Stop ends and waits for all of them.
package chat
