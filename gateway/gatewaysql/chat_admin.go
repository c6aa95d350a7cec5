package gatewaysql

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
)

// filter narrows a read-out by the optional parts of a page; the names are the
// columns that they are compared with.
func filter(query string, args []any, p gateway.Page, thread, turn string) (string, []any) {
	if p.ThreadID != "" && thread != "" {
		query, args = query+` AND `+thread+` = ?`, append(args, p.ThreadID)
	}
	if p.TurnID != "" && turn != "" {
		query, args = query+` AND `+turn+` = ?`, append(args, p.TurnID)
	}
	return query, args
}

func scanAdminBinding(r rowScanner) (b gateway.AdminBinding, err error) {
	var applied int
	var at, used int64
	err = r.Scan(&b.BindingID, &b.RunID, &b.ThreadID, &b.AccountID, &b.HostID, &b.ModelProvider, &b.ModelProviderID,
		&b.Model, &b.VirtualThreadID, &b.ContinueFrom, &applied, &b.Turns, &b.Unsettled, &used, &b.Cursor, &at)
	b.Applied, b.CreatedAt, b.UsedAt = applied != 0, gateway.Millis(at), gateway.Millis(used)
	return b, err
}

func (tx chatTx) AdminBindings(ctx context.Context, orgID string, p gateway.Page) ([]gateway.AdminBinding, error) {
	query, args := filter(`
		SELECT b.id, r.id, r.thread_id, r.account_id, r.host_id, b.model_provider, b.model_provider_id, b.model,
			b.virtual_thread_id, b.continue_from, b.applied,
			(SELECT COUNT(*) FROM turns t WHERE t.thread_id = r.thread_id AND t.binding_id = b.id),
			(SELECT COUNT(*) FROM turns t WHERE t.thread_id = r.thread_id AND t.binding_id = b.id
				AND (t.status IN ('queued', 'pending', 'running') OR t.recover_by IS NOT NULL)),
			COALESCE((SELECT MAX(t.created_at) FROM turns t WHERE t.thread_id = r.thread_id AND t.binding_id = b.id), b.created_at),
			r.cursor_seq, b.created_at
		FROM bindings b JOIN runs r ON r.id = b.run_id WHERE r.org_id = ?`, []any{orgID}, p, "r.thread_id", "")
	if p.HostID != "" {
		query, args = query+` AND r.host_id = ?`, append(args, p.HostID)
	}
	if p.BindingID != "" {
		query, args = query+` AND b.id = ?`, append(args, p.BindingID)
	}
	switch p.Binding {
	case gateway.BindingOpen:
		query, args = query+` AND b.id IN `+openBindings, append(args, orgID, orgID)
	case gateway.BindingSettled:
		query, args = query+` AND b.applied = 1 AND b.id NOT IN `+openBindings, append(args, orgID, orgID)
	case gateway.BindingUnanswered:
		query += ` AND b.applied = 0`
	}
	return many(ctx, tx, "list bindings", scanAdminBinding,
		query+` ORDER BY b.created_at DESC, b.id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...)
}

// openBindings are those of an org with a turn that is not settled; found without
// reading turns that are over.
const openBindings = `(
	SELECT t.binding_id FROM turns t WHERE t.org_id = ? AND t.binding_id IS NOT NULL
		AND t.status IN ('queued', 'pending', 'running')
	UNION SELECT t.binding_id FROM turns t WHERE t.org_id = ? AND t.binding_id IS NOT NULL AND t.recover_by IS NOT NULL)`

func scanAdminTurn(r rowScanner) (t gateway.AdminTurn, err error) {
	var recoverBy, created, started, ended int64
	err = r.Scan(&t.TurnID, &t.ThreadID, &t.AccountID, &t.HostID, &t.RunID, &t.BindingID, &t.VirtualTurnID, &t.Status,
		&t.Reason, &t.Error, &recoverBy, &t.Delivery, &t.Model, &t.Route, &t.InputID, &t.Command, &created, &started, &ended)
	t.CreatedAt, t.Recovering, t.RecoverBy = gateway.Millis(created), recoverBy != 0, moment(recoverBy)
	t.StartedAt, t.EndedAt = moment(started), moment(ended)
	return t, err
}

func moment(ms int64) *gateway.Time {
	if ms == 0 {
		return nil
	}
	t := gateway.Millis(ms)
	return &t
}

func (tx chatTx) AdminTurns(ctx context.Context, orgID string, p gateway.Page) ([]gateway.AdminTurn, error) {
	query, args := filter(`
		SELECT t.id, t.thread_id, t.account_id, t.host_id, COALESCE(t.run_id, ''), COALESCE(t.binding_id, ''),
			COALESCE(t.virtual_turn_id, ''), t.status, t.reason, t.error, COALESCE(t.recover_by, 0),
			COALESCE((SELECT d.state FROM deliveries d WHERE d.turn_id = t.id AND d.state IN ('reserved', 'held')), ''),
			t.model, t.route, t.input_event_id,
			COALESCE((SELECT c.state FROM commands c WHERE c.turn_id = t.id ORDER BY c.seq LIMIT 1), ''),
			t.created_at, COALESCE(t.started_at, 0), COALESCE(t.ended_at, 0)
		FROM turns t WHERE t.org_id = ?`, []any{orgID}, p, "t.thread_id", "t.id")
	if p.Status != "" {
		query, args = query+` AND t.status = ?`, append(args, p.Status)
	}
	if p.BindingID != "" {
		query, args = query+` AND t.binding_id = ?`, append(args, p.BindingID)
	}
	return many(ctx, tx, "list turns", scanAdminTurn,
		query+` ORDER BY t.created_at DESC, t.id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...)
}

func scanAdminQueue(r rowScanner) (q gateway.AdminQueueItem, err error) {
	var at int64
	err = r.Scan(&q.EventID, &q.OriginID, &q.ThreadID, &q.AccountID, &q.Mode, &q.Position, &q.Delivery, &q.TurnID, &at)
	q.CreatedAt = gateway.Millis(at)
	return q, err
}

func (tx chatTx) AdminQueue(ctx context.Context, orgID string, p gateway.Page) ([]gateway.AdminQueueItem, error) {
	query, args := filter(`
		SELECT q.event_id, q.origin_id, q.thread_id, t.account_id, q.mode,
			(SELECT COUNT(*) FROM queue o WHERE o.thread_id = q.thread_id
				AND (o.item_rank < q.item_rank OR (o.item_rank = q.item_rank AND o.origin_seq <= q.origin_seq))),
			COALESCE(d.state, ''), COALESCE(d.turn_id, ''), q.created_at
		FROM queue q JOIN threads t ON t.id = q.thread_id
		LEFT JOIN deliveries d ON d.event_id = q.event_id AND d.state IN ('reserved', 'held')
		WHERE t.org_id = ?`, []any{orgID}, p, "q.thread_id", "")
	return many(ctx, tx, "list queue", scanAdminQueue,
		query+` ORDER BY q.created_at DESC, q.event_id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...)
}

func scanAdminCommand(r rowScanner) (c gateway.AdminCommand, err error) {
	var at int64
	err = r.Scan(&c.Seq, &c.Kind, &c.TurnID, &c.State, &c.Error, &at)
	c.CreatedAt = gateway.Millis(at)
	return c, err
}

func (tx chatTx) AdminCommands(ctx context.Context, runID string, limit int) ([]gateway.AdminCommand, error) {
	return many(ctx, tx, "list commands", scanAdminCommand, `
		SELECT seq, kind, turn_id, state, error, created_at FROM commands WHERE run_id = ?
		ORDER BY seq DESC LIMIT ?`, runID, limit)
}

func scanAdminEvent(r rowScanner) (e gateway.AdminEvent, err error) {
	var at int64
	err = r.Scan(&e.SeqID, &e.EventType, &e.TurnID, &e.Size, &at)
	e.CreatedAt = gateway.Millis(at)
	return e, err
}

func (tx chatTx) AdminEvents(ctx context.Context, threadID string, limit int) ([]gateway.AdminEvent, error) {
	return many(ctx, tx, "list events", scanAdminEvent, `
		SELECT seq_id, event_type, COALESCE(turn_id, ''), size, created_at FROM thread_events WHERE thread_id = ?
		ORDER BY seq_id DESC LIMIT ?`, threadID, limit)
}

func (tx chatTx) Audit(ctx context.Context, e gateway.AuditEntry) error {
	return insertAudit(ctx, tx.Tx, e)
}
