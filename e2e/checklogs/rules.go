package main

// rule is something that must never be found: each row of query is a fault.
type rule struct{ name, query string }

const (
	terminalEvents = `('turn.completed', 'turn.failed', 'turn.cancelled', 'turn.timeout')`
	finalStatuses  = `('completed', 'failed', 'cancelled', 'timeout')`
	outputEvents   = `('output.message', 'output.partial')`
)

var rules = []rule{
	{"gateway database is damaged", `SELECT integrity_check FROM pragma_integrity_check WHERE schema = 'main' AND integrity_check <> 'ok'`},
	{"host database is damaged", `SELECT integrity_check FROM pragma_integrity_check WHERE schema = 'host' AND integrity_check <> 'ok'`},
	{"gateway row refers to nothing", `SELECT "table", rowid, parent FROM pragma_foreign_key_check WHERE schema = 'main'`},

	{"event beyond the thread's latest sequence number", `
		SELECT e.thread_id, e.seq_id FROM thread_events e JOIN threads t ON t.id = e.thread_id WHERE e.seq_id > t.latest_seq`},
	{"event revoked twice", `
		SELECT thread_id, revokes_event_id, count(*) FROM thread_events
		WHERE revokes_event_id IS NOT NULL GROUP BY thread_id, revokes_event_id HAVING count(*) > 1`},
	{"turn without exactly one replacement of the message that it took", `
		SELECT t.id, count(e.id) FROM turns t
		JOIN threads h ON h.id = t.thread_id AND h.deleted_at IS NULL
		LEFT JOIN thread_events e ON e.turn_id = t.id AND e.event_type = 'input.prompt' AND e.revokes_event_id = t.input_event_id
		GROUP BY t.id HAVING count(e.id) <> 1`},
	{"message in a turn that is neither its prompt nor a delivered steer", `
		SELECT e.id, e.turn_id FROM thread_events e
		JOIN threads h ON h.id = e.thread_id AND h.deleted_at IS NULL
		WHERE e.event_type = 'input.prompt' AND e.turn_id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = e.turn_id AND t.input_event_id = e.revokes_event_id)
		AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.turn_id = e.turn_id AND d.event_id = e.revokes_event_id AND d.state = 'delivered')`},
	{"delivered steer without exactly one event in its turn", `
		SELECT d.id, d.turn_id, count(e.id) FROM deliveries d
		JOIN threads h ON h.id = d.thread_id AND h.deleted_at IS NULL
		LEFT JOIN thread_events e ON e.turn_id = d.turn_id AND e.revokes_event_id = d.event_id
			AND e.event_type IN ('input.prompt', 'input.deadline')
		WHERE d.state = 'delivered' GROUP BY d.id HAVING count(e.id) <> 1`},
	{"steer that is open in a turn which is over and not cancelled", `
		SELECT d.id, t.id, t.status FROM deliveries d JOIN turns t ON t.id = d.turn_id
		WHERE d.state IN ('waiting', 'reserved', 'held') AND t.status IN ('completed', 'failed', 'timeout')`},
	{"reserved steer that does not wait", `
		SELECT d.id, d.event_id FROM deliveries d JOIN threads h ON h.id = d.thread_id AND h.deleted_at IS NULL
		WHERE d.kind = 'message' AND d.state IN ('reserved', 'held') AND d.event_id NOT IN (SELECT event_id FROM queue)`},
	{"marker of the org queue without its end, or an end without it", `
		SELECT t.id, t.status, sum(e.event_type = 'turn.queued'), sum(e.event_type = 'turn.dequeued') FROM turns t
		JOIN thread_events e ON e.turn_id = t.id AND e.event_type IN ('turn.queued', 'turn.dequeued')
		GROUP BY t.id HAVING sum(e.event_type = 'turn.queued') <> 1
		OR t.status IN ('pending', 'running', 'completed') AND sum(e.event_type = 'turn.dequeued') <> 1
		OR t.status = 'queued' AND sum(e.event_type = 'turn.dequeued') <> 0`},
	{"charge without the usage that it is for", `
		SELECT c.id, c.turn_id FROM charges c
		LEFT JOIN turn_usage u ON u.turn_id = c.turn_id AND u.response_id = c.response_id AND u.category = c.category
		WHERE u.turn_id IS NULL OR u.quantity <> c.quantity`},
	{"final turn without exactly one terminal event, or a live one with it", `
		SELECT t.id, t.status, count(e.id) FROM turns t
		JOIN threads h ON h.id = t.thread_id AND h.deleted_at IS NULL
		LEFT JOIN thread_events e ON e.turn_id = t.id AND e.event_type IN ` + terminalEvents + `
		GROUP BY t.id HAVING count(e.id) <> (t.status IN ` + finalStatuses + `)`},
	{"terminal event that is not the turn's status", `
		SELECT t.id, t.status, e.event_type FROM turns t JOIN thread_events e ON e.turn_id = t.id
		WHERE e.event_type IN ` + terminalEvents + ` AND e.event_type <> 'turn.' || t.status`},
	{"event of a turn's answer after its terminal event", `
		SELECT e.id FROM thread_events e JOIN thread_events z ON z.turn_id = e.turn_id AND z.event_type IN ` + terminalEvents + `
		WHERE e.event_type IN ` + outputEvents + ` AND e.seq_id > z.seq_id`},
	{"answer with a gap, an overlap or a wrong length", `
		SELECT turn_id, "from", "to", before FROM (
			SELECT turn_id, "from", "to", bytes, coalesce(lag("to") OVER (PARTITION BY turn_id ORDER BY seq_id), 0) AS before FROM (
				SELECT turn_id, seq_id, payload ->> 'from' AS "from", payload ->> 'to' AS "to", length(CAST(content AS BLOB)) AS bytes
				FROM thread_events WHERE event_type IN ` + outputEvents + `))
		WHERE "from" <> before OR "to" - "from" <> bytes`},
	{"streamed text kept beside the log after the end", `
		SELECT d.turn_id, t.status FROM turn_deltas d JOIN turns t ON t.id = d.turn_id WHERE t.status IN ` + finalStatuses},
	{"waiting message that is revoked or taken", `
		SELECT q.event_id FROM queue q JOIN thread_events e ON e.revokes_event_id = q.event_id`},
	{"message that neither waits nor was taken nor taken back", `
		SELECT e.id FROM thread_events e
		JOIN threads t ON t.id = e.thread_id AND t.deleted_at IS NULL
		LEFT JOIN queue q ON q.event_id = e.id
		LEFT JOIN thread_events r ON r.revokes_event_id = e.id
		WHERE e.event_type = 'input.prompt' AND e.turn_id IS NULL AND q.event_id IS NULL AND r.id IS NULL`},
	{"live turn that no host will hear of", `
		SELECT t.id, t.status FROM turns t
		WHERE t.status IN ('pending', 'running') AND NOT EXISTS (
			SELECT 1 FROM commands c WHERE c.turn_id = t.id AND c.kind = 'prompt.request' AND c.state IN ('pending', 'sent', 'acked'))`},
	{"client event id without a reply", `SELECT id, kind FROM client_events WHERE reply = ''`},

	{"reservation that is settled but whose native turn is not over", `
		SELECT r.turn_id, n.status FROM host.relay_turns r JOIN host.native_turns n ON n.id = r.native_turn_id
		WHERE r.terminal_projected = 1 AND r.start_rejected = 0 AND n.completed_seq IS NULL`},
	{"rejected reservation whose native turn ran", `
		SELECT r.turn_id FROM host.relay_turns r JOIN host.native_turns n ON n.id = r.native_turn_id WHERE r.start_rejected = 1`},
	{"projection beyond the ledger", `
		SELECT b.binding_id, b.projected_seq FROM host.relay_bindings b
		WHERE b.projected_seq > coalesce((SELECT max(seq) FROM host.native_events e WHERE e.thread_id = b.native_thread_id), 0)`},
	{"settled turn whose end was not projected", `
		SELECT r.turn_id FROM host.relay_turns r
		JOIN host.relay_bindings b ON b.scope_key = r.scope_key AND b.binding_id = r.binding_id
		JOIN host.native_turns n ON n.id = r.native_turn_id
		WHERE r.terminal_projected = 1 AND r.start_rejected = 0 AND b.projected_seq < n.completed_seq`},
	{"native turn without exactly one start, or with more than one end", `
		SELECT n.id, sum(e.event = 'turn.started'), sum(e.event = 'turn.completed') FROM host.native_turns n
		JOIN host.native_events e ON e.turn_id = n.id
		GROUP BY n.id
		HAVING sum(e.event = 'turn.started') <> 1 OR sum(e.event = 'turn.completed') <> (n.completed_seq IS NOT NULL)`},
	{"ledger record of a turn outside its start and end", `
		SELECT e.seq, n.id FROM host.native_turns n JOIN host.native_events e ON e.turn_id = n.id
		WHERE e.seq < n.started_seq OR e.seq > n.completed_seq`},
	{"envelope kept although it was acknowledged", `
		SELECT j.run_id, j.seq, r.cursor FROM host.relay_journal j
		JOIN host.relay_runs r ON r.scope_key = j.scope_key AND r.run_id = j.run_id WHERE j.seq <= r.cursor`},
	{"gateway that acknowledged more than the host ever sent", `
		SELECT g.id, g.cursor_seq, r.cursor FROM runs g JOIN host.relay_runs r ON r.run_id = g.id WHERE r.cursor > g.cursor_seq`},
	{"run that more than one host holds", `
		SELECT run_id, count(DISTINCT scope_key) FROM host.relay_runs GROUP BY run_id HAVING count(DISTINCT scope_key) > 1`},
	{"turn that ran natively more than once", `
		SELECT t.id, count(DISTINCT r.native_turn_id) FROM turns t
		JOIN host.relay_turns r ON r.run_id = t.run_id AND r.turn_id = t.virtual_turn_id
		GROUP BY t.id HAVING count(DISTINCT r.native_turn_id) > 1`},
	{"native turn that no turn of the gateway knows", `
		SELECT r.turn_id FROM host.relay_turns r
		LEFT JOIN turns t ON t.run_id = r.run_id AND t.virtual_turn_id = r.turn_id WHERE t.id IS NULL`},
}

// textsQuery joins, for each turn with an end, what its output events hold with
// what its ledger holds. A text that was retracted stands in partial.
const textsQuery = `
	SELECT t.id, t.status,
		coalesce((SELECT group_concat(content, '') FROM (
			SELECT content FROM thread_events e WHERE e.turn_id = t.id AND e.event_type IN ` + outputEvents + ` ORDER BY e.seq_id)), ''),
		coalesce((SELECT group_concat(delta, '') FROM (
			SELECT e.payload ->> 'delta' AS delta FROM host.native_events e
			WHERE e.turn_id = r.native_turn_id AND e.event = 'item.delta' AND e.payload ->> 'kind' = 'agent_message' ORDER BY e.seq)), '')
	FROM turns t JOIN host.relay_turns r ON r.run_id = t.run_id AND r.turn_id = t.virtual_turn_id
	JOIN threads h ON h.id = t.thread_id AND h.deleted_at IS NULL
	WHERE t.status IN ` + finalStatuses
