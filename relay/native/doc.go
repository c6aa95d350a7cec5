// Package native is the runtime behind a relay host: it owns native threads,
// their turns and items, and the ledger of everything that happened in them.
//
// # Records
//
// A thread is a conversation, pinned to a system prompt, made of rounds: a person's
// message, and the response to it. A turn is one round, and one more for each steer
// that it takes: a message that a person adds while it runs. The ledger holds the
// events of all threads under one rising sequence number. A turn is live from the
// moment that it is accepted until its one turn.completed is in the ledger:
//
//	in_progress ─steer taken─▶ in_progress, in the next round
//	in_progress ─engine─▶ completed | failed
//	in_progress ─InterruptTurn, Close─▶ interrupted
//	in_progress ─Open after a crash─▶ interrupted, "recovered": true
//
// # Promises
//
//   - A turn is accepted in one durable step (operation, item, turn, thread pointer,
//     turn.started) before a provider hears of it (RH67), and each round makes at
//     most one provider request, in the process that accepted the turn: what a crash
//     cuts short is settled as interrupted, never sent again (RH70).
//   - A steer is taken in one durable step (the response before it, delivery, the
//     person's item, turn.steered) before the provider hears of it, once for ever.
//     It is taken when a response has ended well, or was cut for it; a response that
//     failed, an incomplete one too, ends the turn whatever waits. That nothing waits
//     and that the turn ends is one decision: a steer is in time or rejected, never
//     lost. Without a steer that was taken there is no second request.
//   - An operation key stands for one request for ever; the same request with the
//     same key is the same turn (RH66).
//   - Every event is durable before a Watch function is called and before Events
//     returns it. A piece of an answer and its sequence number are one durable step
//     (RH69, RH71).
//   - The end of a turn, the texts of its last round and its turn.completed are one
//     durable step, so the ledger holds exactly one for each turn that ended.
//   - A write that failed is tried again, as it stands, for as long as nothing of it
//     can have been stored. A write whose outcome is unknown is never repeated: the
//     turn is abandoned, the runtime is Broken and must be opened again, and the
//     recovery at Open then reads what is true (RH71).
//
// # Goroutines
//
// A running turn has two: the engine calls provider.Client, one response after the
// other, and during each the recorder appends what the engine emits to the ledger.
// While one append commits, and for a few times as long after it when other turns
// run too, further deltas gather and become the next; the first goes at once. The
// engine waits only if the recorder falls far behind. Close ends both and waits for
// them.
//
// Nothing here runs a tool: a request carries none, and a call that a provider
// makes regardless ends its response as provider.Settle says.
package native
