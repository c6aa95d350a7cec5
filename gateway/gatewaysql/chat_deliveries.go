package gatewaysql

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
)

const deliveryQuery = `
	SELECT id, turn_id, thread_id, event_id, kind, state, prompt, now_flag, at_offset, created_at, COALESCE(settled_at, 0) FROM deliveries`

func scanDelivery(r rowScanner) (d gateway.DeliveryRow, err error) {
	var now int
	err = r.Scan(&d.ID, &d.TurnID, &d.ThreadID, &d.EventID, &d.Kind, &d.State, &d.Prompt, &now, &d.At, &d.CreatedAt, &d.SettledAt)
	d.Now = now != 0
	return d, err
}

func (tx chatTx) InsertDelivery(ctx context.Context, d gateway.DeliveryRow) error {
	return tx.insert(ctx, "insert delivery", `
		INSERT INTO deliveries (id, turn_id, thread_id, event_id, kind, state, prompt, now_flag, at_offset, created_at, settled_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		d.ID, d.TurnID, d.ThreadID, d.EventID, d.Kind, d.State, d.Prompt, flag(d.Now), d.At, d.CreatedAt, optional(d.SettledAt))
}

func (tx chatTx) Delivery(ctx context.Context, deliveryID string) (gateway.DeliveryRow, error) {
	return one("read delivery", tx.QueryRow(ctx, deliveryQuery+` WHERE id = ?`, deliveryID), scanDelivery)
}

func (tx chatTx) OpenDelivery(ctx context.Context, turnID string) (gateway.DeliveryRow, error) {
	return one("read open delivery", tx.QueryRow(ctx,
		deliveryQuery+` WHERE turn_id = ? AND state IN ('reserved', 'held')`, turnID), scanDelivery)
}

func (tx chatTx) DeliveryOfEvent(ctx context.Context, eventID string) (gateway.DeliveryRow, error) {
	return one("read delivery of event", tx.QueryRow(ctx,
		deliveryQuery+` WHERE event_id = ? AND state IN ('reserved', 'held')`, eventID), scanDelivery)
}

func (tx chatTx) Deliveries(ctx context.Context, turnID string) ([]gateway.DeliveryRow, error) {
	return many(ctx, tx, "list deliveries", scanDelivery, deliveryQuery+` WHERE turn_id = ? ORDER BY created_at, id`, turnID)
}

func (tx chatTx) UpdateDelivery(ctx context.Context, d gateway.DeliveryRow) error {
	return tx.exec(ctx, "update delivery", `
		UPDATE deliveries SET state = ?, prompt = ?, now_flag = ?, at_offset = ?, settled_at = ? WHERE id = ?`,
		d.State, d.Prompt, flag(d.Now), d.At, optional(d.SettledAt), d.ID)
}

const agedTurns = turnQuery + `
	WHERE status = 'running' AND started_at <= ?
	AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.turn_id = turns.id AND d.kind = 'deadline')
	ORDER BY started_at, id`

func (tx chatTx) AgedTurns(ctx context.Context, startedBy int64) ([]gateway.TurnRow, error) {
	return many(ctx, tx, "list aged turns", scanTurn, agedTurns, startedBy)
}
