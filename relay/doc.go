// Package relay is the relay host: it turns a control plane's commands into
// native turns that run once, and lets only safe events out again.
//
// # What it owns
//
// A Host owns one folder. A lock file in it makes the owner exclusive, against
// other processes and within this one (RH2). Inside the folder each pair of
// target and session has a scope: a private directory named by a hash of the
// pair (RH1, RH8), and rows in the Store under the same name. A scope is bound to
// one account for good (RH6), and one run at a time is authorised in it (RH23).
//
// In a scope there are bindings: a run's virtual thread, pinned to one route and
// one native thread for life (RH29). In a binding there are reservations, one for
// each virtual turn:
//
//	none ─reserve─▶ unsettled ─turn.completed handed off─▶ terminal
//	                unsettled ─start proven rejected─▶ start-rejected ─exact retry─▶ unsettled
//
// A reservation is durable before the native turn is started, under an id that
// follows from the command; so a command may be sent again at any time, and a
// crash anywhere neither runs a turn twice nor loses one (RH32, RH35).
//
// Native events come back through a claim, a journal and two cursors (RH39–RH43):
// a projectable event is claimed in memory, and in one write its envelope is
// journaled and the projection cursor moves behind it; then the transport takes it,
// which ends the claim; the receiver's own cursor retires the envelope from the
// journal. The end of a turn is the exception: its cursor moves with the hand-off,
// in the write that settles the turn. A crash between two steps sends an envelope
// again from the journal, or the end of a turn under a new seq with the same source
// event id; never the other way round.
//
// # What is in memory
//
// The Store is the truth. A loaded scope holds only what the next event needs:
// owner, authorised run, unsettled turns, the bindings these belong to, claims,
// and envelopes that await the receiver's cursor. Everything else is looked up by
// index, so that the cost of a turn or an event does not grow with the bindings
// that a scope has collected. A change is validated, written, then made in memory,
// all under the scope's one state lock; after a failed write, whose outcome may be
// unknown, the memory is not trusted either and is read again before the next use
// (RH5).
//
// # Trust
//
// The contract lets a host refuse its whole state file if any part is wrong (RH3).
// Here the state is rows, and reading all of them would make every start slower
// with each chat. So the invariants stand as constraints in the schema (ids,
// fingerprints and owners present, nothing shared that must be unique); Open
// checks that this is the schema it knows; and each record is validated again when
// it is loaded. What fails is relay_state_untrusted, for the program if the schema
// is at fault, for that scope alone otherwise. Nothing is repaired or reset.
//
// # Leases
//
// A scope has one inference lease. It is held while a turn of the scope is
// unsettled or a turn.completed awaits the receiver's cursor (RH25). A provider
// request in progress also takes one of the host's MaxInflight places; the place
// is free again when the native turn has ended, so that a receiver who never comes
// back cannot use them up. Both are tried, never waited for (RH24). As a folder
// has one owner, the leases need no rows: unsettled turns are found by an index at
// Open and their leases are taken again before anything else happens (RH26).
//
// # Goroutines
//
// Open starts one goroutine, which frees the places of turns that ended while no
// control plane was attached; Close waits for it. Everything else runs in the
// callers' goroutines. Locks are taken in this order: Scope.applying, Scope.mu,
// then one of Host.mu, leases.mu, Scope.wakeMu, which are leaves.
package relay
