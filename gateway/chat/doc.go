// Package chat is the control plane of conversations: threads with their
// append-only logs, the queue of waiting messages, turns, and what hosts are told
// about them. It implements gateway.Ledger.
//
// # A message
//
// Every message is queued first, also in an idle thread (CG67). Accepting one is
// one transaction: it spends the client event id, appends the original
// input.prompt and stores the queue item. It locks the thread, never the org.
// Claiming is another: it locks org, thread and queue row, asks for admission,
// takes the head of the queue, makes the turn with its run and binding, appends the
// replacement event and writes the command for the host. Who finds then that the
// thread is not idle, or the message gone, leaves nothing behind (CG78). The claim
// of a message for an idle thread follows at once; else it follows the end of the
// turn before. A crash between the two leaves an idle thread with a waiting
// message, which Start and every sweep look for. No turn exists without the message
// that it took (SQ1).
//
// After Rest nothing is claimed: a message that is sent while the program comes to
// its end waits like any other, and the next Start finds it.
//
// A client event id is looked up before anything else. Its first reply is settled
// once, by the claim or by whoever finds that the message waits, and stands for
// ever; who is second, in time or at the same moment, gets it too.
//
// Who may start no turn (see admission) gets an answer in the thread: the message,
// input.rejected and output.error, and no turn; the same goes for a message whose
// turn would come later. Who only lost the right while the message was on its way
// is refused as if nothing had been sent.
//
// A disabled account starts nothing: what waits of it, in its threads, as steers or in
// the queue of its org, waits until the account is enabled again. The next sweep finds
// it then. Turns that were made before end as always.
//
// # A turn
//
//	        ┌→ queued ─┬──────────────┐
//	created ┼→ pending ┴→ running ────┼→ completed | failed | cancelled | timeout
//	        └→ failed
//
// The table of which cause leads where is next; transition is the one writer of a
// status. Queued turns wait for a place in their org: see Promote. One turn of a
// thread is not final at most: the schema refuses a second. The first final write
// wins; whoever comes later finds it and changes nothing but usage. A cancelled
// turn that its host may know of holds the thread closed (recovering) until the
// host tells its end, or for a limited time.
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
// # What the model is told, and what it costs
//
// Beside the prompt a turn carries a context (addContext): the surface, the thread,
// the assistant's instructions and the rounds that no native history has. It is
// made at the claim, goes into the command and stays on the turn.
//
// What a provider reports is booked in the transaction of the end that it came
// with, also if the turn was final before (book): usage once for each response and
// category, on metered routes with its price. Where nothing was reported for a
// turn that a host knew, an estimate stands on the turn until a report comes (F26).
//
// What a transaction counts and measures is told after its commit: an undone one
// leaves no metric and no span. Spans are free of content (see stageName).
//
// # Memory and the store
//
// Memory follows commits. Where a commit was perhaps kept and nobody told, memory
// is brought up to the store again before anything is concluded from it: see
// refresh.
//
// # Locks and goroutines
//
// Transactions take explicit locks in the order org, thread, turn, queue row. In
// memory the order is live.gate, then live.mu; the writer's callbacks (OnCommit)
// take live.mu and the registry's lock only, so holding a gate across a
// transaction is safe. What a transaction has to tell is handed over in its
// OnCommit, hence in commit order, and published by a short goroutine for each
// topic (posts): a subscriber that hangs holds up its own topic alone, never a
// commit. Wake-ups of hosts go out at once. Each run with unstored envelopes has
// one goroutine (pipe.run); each thread or org to be looked at after a commit has
// a short one; the sweeper is one more. Stop ends and waits for all of them.
package chat
