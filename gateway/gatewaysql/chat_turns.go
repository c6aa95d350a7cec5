package gatewaysql

import (
	"context"
	"database/sql"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	turnQuery = turnHead + `context` + turnTail
	turnHead  = `
	SELECT id, org_id, account_id, thread_id, input_event_id, COALESCE(run_id, ''), COALESCE(binding_id, ''), host_id,
		COALESCE(virtual_turn_id, ''), status, reason, error, interrupted, COALESCE(recover_by, 0), model, route,
		billing, family, marker_event_id, `
	turnTail = `, estimate_input, estimate_output, partial, created_at, COALESCE(started_at, 0), COALESCE(ended_at, 0)
	FROM turns`
)

func scanTurn(r rowScanner) (t gateway.TurnRow, err error) {
	var partial sql.NullString
	var interrupted int
	err = r.Scan(&t.ID, &t.OrgID, &t.AccountID, &t.ThreadID, &t.InputEventID, &t.RunID, &t.BindingID, &t.HostID,
		&t.VirtualTurnID, &t.Status, &t.Reason, &t.Error, &interrupted, &t.RecoverBy, &t.Model, &t.Route,
		&t.Billing, &t.Family, &t.MarkerEventID, &t.Context, &t.EstimateInput, &t.EstimateOutput, &partial, &t.CreatedAt, &t.StartedAt, &t.EndedAt)
	t.Interrupted = interrupted != 0
	if partial.Valid {
		t.Partial = &partial.String
	}
	return t, err
}

func (tx chatTx) InsertTurn(ctx context.Context, t gateway.TurnRow) error {
	if t.InputEventID == "" {
		return wire.NewError(gateway.CodeQueueAssociationRequired, "A turn needs the waiting message that it takes.")
	}
	return tx.insert(ctx, "insert turn", `
		INSERT INTO turns (id, org_id, account_id, thread_id, input_event_id, run_id, binding_id, host_id, virtual_turn_id,
			status, reason, error, model, route, billing, family, marker_event_id, context, created_at, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		t.ID, t.OrgID, t.AccountID, t.ThreadID, t.InputEventID, optionalText(t.RunID), optionalText(t.BindingID), t.HostID,
		optionalText(t.VirtualTurnID), t.Status, t.Reason, t.Error, t.Model, t.Route,
		billingOf(t), t.Family, t.MarkerEventID, t.Context, t.CreatedAt, optional(t.StartedAt), optional(t.EndedAt))
}

func (tx chatTx) Turn(ctx context.Context, turnID string) (gateway.TurnRow, error) {
	return one("read turn", tx.QueryRow(ctx, turnQuery+` WHERE id = ?`, turnID), scanTurn)
}

func (tx chatTx) TurnStatus(ctx context.Context, turnID string) (status gateway.TurnStatus, err error) {
	text, err := one("read status of turn", tx.QueryRow(ctx, `SELECT status FROM turns WHERE id = ?`, turnID), scanText)
	return gateway.TurnStatus(text), err
}

func (tx chatTx) TurnOfHost(ctx context.Context, runID, virtualTurnID string) (gateway.TurnRow, error) {
	return one("read turn of host", tx.QueryRow(ctx,
		turnQuery+` WHERE run_id = ? AND virtual_turn_id = ?`, runID, virtualTurnID), scanTurn)
}

func (tx chatTx) UpdateTurn(ctx context.Context, t gateway.TurnRow) error {
	return tx.exec(ctx, "update turn", `
		UPDATE turns SET status = ?, reason = ?, error = ?, interrupted = ?, recover_by = ?, partial = ?,
			marker_event_id = ?, estimate_input = ?, estimate_output = ?, started_at = ?, ended_at = ? WHERE id = ?`,
		t.Status, t.Reason, t.Error, flag(t.Interrupted), optional(t.RecoverBy), t.Partial,
		t.MarkerEventID, t.EstimateInput, t.EstimateOutput,
		optional(t.StartedAt), optional(t.EndedAt), t.ID)
}

func (tx chatTx) ActiveTurn(ctx context.Context, threadID string) (gateway.TurnRow, error) {
	return one("read active turn", tx.QueryRow(ctx,
		turnQuery+` WHERE thread_id = ? AND status IN ('queued', 'pending', 'running')`, threadID), scanTurn)
}

func (tx chatTx) RecoveringTurns(ctx context.Context, threadID string) ([]gateway.TurnRow, error) {
	if threadID == "" {
		return many(ctx, tx, "list recovering turns", scanTurn, turnQuery+` WHERE recover_by IS NOT NULL ORDER BY created_at, id`)
	}
	return many(ctx, tx, "list recovering turns", scanTurn,
		turnQuery+` WHERE thread_id = ? AND recover_by IS NOT NULL ORDER BY created_at, id`, threadID)
}

// billingOf is what a turn is stored with; one that no route serves costs nothing.
func billingOf(t gateway.TurnRow) string {
	if t.Billing == "" {
		return string(gateway.BillingOwn)
	}
	return t.Billing
}

const unknownTurns = turnQuery + `
	WHERE thread_id = ? AND started_at IS NULL AND status NOT IN ('queued', 'pending', 'running')
	ORDER BY created_at DESC, id DESC LIMIT ?`

func (tx chatTx) UnknownTurns(ctx context.Context, threadID string, limit int) ([]gateway.TurnRow, error) {
	return many(ctx, tx, "list unknown turns", scanTurn, unknownTurns, threadID, limit)
}

func (tx chatTx) LiveTurns(ctx context.Context) ([]gateway.TurnRow, error) {
	return many(ctx, tx, "list live turns", scanTurn,
		turnQuery+` WHERE status IN ('queued', 'pending', 'running') ORDER BY created_at, id`)
}

func (tx chatTx) AppendDelta(ctx context.Context, d gateway.DeltaRow) error {
	return tx.insert(ctx, "append text", `
		INSERT INTO turn_deltas (turn_id, from_offset, to_offset, body, sources) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		d.TurnID, d.From, d.To, d.Text, strings.Join(d.Sources, "\n"))
}

func scanDelta(r rowScanner) (d gateway.DeltaRow, err error) {
	var sources string
	err = r.Scan(&d.TurnID, &d.From, &d.To, &d.Text, &sources)
	if sources != "" {
		d.Sources = strings.Split(sources, "\n")
	}
	return d, err
}

func (tx chatTx) Deltas(ctx context.Context, turnID string) ([]gateway.DeltaRow, error) {
	return many(ctx, tx, "read text", scanDelta, `
		SELECT turn_id, from_offset, to_offset, body, sources FROM turn_deltas WHERE turn_id = ? ORDER BY from_offset`, turnID)
}

func (tx chatTx) DropDeltas(ctx context.Context, turnID string) error {
	return tx.exec(ctx, "drop text", `DELETE FROM turn_deltas WHERE turn_id = ?`, turnID)
}

func (tx chatTx) AddUsage(ctx context.Context, turnID string, rows []gateway.UsageRow) error {
	for _, u := range rows {
		if err := tx.exec(ctx, "add usage", `
			INSERT INTO turn_usage (turn_id, response_id, category, quantity) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			turnID, u.ResponseID, u.Category, u.Quantity); err != nil {
			return err
		}
	}
	return nil
}

func scanUsage(r rowScanner) (u gateway.UsageRow, err error) {
	return u, r.Scan(&u.ResponseID, &u.Category, &u.Quantity)
}

func (tx chatTx) Usage(ctx context.Context, turnID string) ([]gateway.UsageRow, error) {
	return many(ctx, tx, "read usage", scanUsage, `
		SELECT response_id, category, quantity FROM turn_usage WHERE turn_id = ? ORDER BY response_id, category`, turnID)
}

func (tx chatTx) AddMoment(ctx context.Context, turnID string, at int64, stage, detail string) error {
	return tx.exec(ctx, "add moment", `
		INSERT INTO turn_moments (turn_id, pos, at, stage, detail)
		VALUES (?, (SELECT COUNT(*) FROM turn_moments WHERE turn_id = ?), ?, ?, ?)`, turnID, turnID, at, stage, detail)
}

func scanMoment(r rowScanner) (m gateway.TurnMoment, err error) {
	var at int64
	err = r.Scan(&at, &m.Stage, &m.Detail)
	m.At = gateway.Millis(at)
	return m, err
}

func (tx chatTx) Moments(ctx context.Context, turnID string) ([]gateway.TurnMoment, error) {
	return many(ctx, tx, "read moments", scanMoment, `
		SELECT at, stage, detail FROM turn_moments WHERE turn_id = ? ORDER BY pos`, turnID)
}
