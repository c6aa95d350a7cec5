// Package hosts drives the runs of linked relay hosts: it brings the commands of
// the account side to the host that owns a run, and acknowledgements and envelopes
// back.
//
// It keeps nothing durable. gateway.Ledger is the truth: after a restart, a
// reconnect, a lost acknowledgement or a failed intake a driver attaches the run
// again, and the host sends again what is above the durable cursor. What comes
// twice is passed on twice; the ledger drops it.
//
// What holds:
//   - A run has at most one driver. It has one command at the host at a time, in
//     order of Seq, and asks the ledger before each offer, so that a command that
//     was dropped meanwhile is not sent.
//   - Envelopes of a run reach the ledger in the order of the link, gathered into
//     batches while an intake is in progress. The host's cursor moves only to
//     where the ledger says that it is durable.
//   - A prompt is held back while its host has no room (first come, first served)
//     or its route cools down. A command that stops it is never held back;
//     one that was stopped before it was offered is not offered any more.
//   - While a turn runs, the ledger is polled for steers: after an attach, a wake, an
//     answered prompt and a receipt. The one that it reserves is offered to the host
//     once in an attachment, and again in the next; what the host says of it goes to
//     the ledger after all text that came before.
//   - Wake never blocks, and nothing in a link's reader does. A host that takes nothing
//     holds up its own runs alone.
//   - A run is driven at its own host alone. Work, which marks commands as sent, is
//     asked for only while that host is linked.
//   - A prompt whose settings its host does not understand (AD78, FR38), or that is new
//     to a host which drains, is not offered and does not count as sent.
//   - A host has at most one link; a newer one supersedes the older. Before the newer
//     one begins, and before the runs of a revoked host are ended, the drivers of the
//     older one are gone: nothing of it is taken in afterwards (F25).
//   - Hosts come, change and go at run time: Register, Update, Revoke. Leave sends those
//     on other machines away for a while.
//   - Control planes attach runs of their own on the same links (Control). Their
//     messages never reach the ledger, and the chat's never reach them.
//
// Goroutines: the caller of Serve reads the link; each driven run has one driver,
// which alone calls the ledger for its run and alone sends for it; one for each link
// tells the host whether to drain; short-lived ones find the host of a woken run,
// report absent hosts and bury revoked ones. Serve waits for the drivers of its link,
// Close for everything.
package hosts
