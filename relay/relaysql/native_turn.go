package relaysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

const nativeTurnColumns = `t.id, t.thread_id, t.status, t.input_summary, t.model, t.model_provider, t.model_provider_id,
	t.billing_surface, t.billing_mode, t.reasoning_effort, t.max_output_tokens, t.created_at, t.interrupt_requested`

// scanNativeTurn reads the columns of nativeTurnColumns with scan and checks the status.
func scanNativeTurn(scan func(...any) error) (t native.Turn, err error) {
	var created int64
	err = scan(&t.ID, &t.ThreadID, &t.Status, &t.Summary, &t.Model, &t.ModelProvider, &t.ModelProviderID,
		&t.BillingSurface, &t.BillingMode, &t.ReasoningEffort, &t.MaxOutputTokens, &created, &t.InterruptRequested)
	if err != nil {
		return native.Turn{}, err
	}
	t.CreatedAt = fromMillis(created)
	switch t.Status {
	case relay.NativeQueued, relay.NativeInProgress, relay.NativeCompleted, relay.NativeFailed,
		relay.NativeInterrupted, relay.NativeCanceled:
		return t, nil
	}
	return native.Turn{}, corrupt("native turn " + t.ID)
}

// Operation implements native.Store.
func (s *Native) Operation(ctx context.Context, fingerprint string) (op native.Operation, ok bool, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) (err error) {
		op, ok, err = operation(ctx, tx, fingerprint)
		return err
	})
	return op, ok, err
}

func operation(ctx context.Context, tx *sqldb.Tx, fingerprint string) (op native.Operation, ok bool, err error) {
	rows, err := tx.Query(ctx, `SELECT fingerprint, thread_id, turn_id, request_fingerprint
		FROM native_operations WHERE fingerprint = ?`, fingerprint)
	if err != nil {
		return op, false, err
	}
	defer rows.Close()
	if rows.Next() {
		ok = true
		err = rows.Scan(&op.Fingerprint, &op.ThreadID, &op.TurnID, &op.RequestFingerprint)
		if err != nil {
			return op, false, err
		}
	}
	return op, ok, rows.Err()
}

// AcceptTurn implements native.Store. The order of the statements is that of RH67.
func (s *Native) AcceptTurn(ctx context.Context, a native.Acceptance) (op native.Operation, ok bool, err error) {
	err = s.update(ctx, func(tx *sqldb.Tx) error {
		known, found, err := operation(ctx, tx, a.Operation.Fingerprint)
		if err != nil {
			return err
		}
		if found {
			op, ok = known, false
			return nil
		}
		round, err := nextRound(ctx, tx, a.Turn)
		if err != nil {
			return err
		}
		op, ok = a.Operation, true
		_, err = tx.Exec(ctx, `INSERT INTO native_operations
			(fingerprint, thread_id, turn_id, request_fingerprint, created_at) VALUES (?, ?, ?, ?, ?)`,
			op.Fingerprint, op.ThreadID, op.TurnID, op.RequestFingerprint, millis(a.Turn.CreatedAt))
		if err != nil {
			return err
		}
		return insertNativeTurn(ctx, tx, a, round)
	})
	return op, ok, err
}

// nextRound checks that the thread can take the turn.
func nextRound(ctx context.Context, tx *sqldb.Tx, t native.Turn) (round int64, err error) {
	var active, taken int
	err = tx.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM native_turns WHERE thread_id = h.id AND completed_seq IS NULL),
			(SELECT count(*) FROM native_turns WHERE id = ?),
			(SELECT coalesce(max(round), 0) + 1 FROM native_items WHERE thread_id = h.id)
		FROM native_threads h WHERE h.id = ?`, t.ID, t.ThreadID).Scan(&active, &taken, &round)
	switch {
	case err != nil:
		return 0, err
	case taken > 0:
		return 0, native.ErrTurnExists
	case active > 0:
		return 0, native.ErrActive
	}
	return round, nil
}

func insertNativeTurn(ctx context.Context, tx *sqldb.Tx, a native.Acceptance, round int64) error {
	t := a.Turn
	seq, err := nextSeq(ctx, tx, 1)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO native_turns (id, thread_id, round, status, input_summary, model,
		model_provider, model_provider_id, billing_surface, billing_mode, reasoning_effort, max_output_tokens,
		created_at, started_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.ThreadID, round, string(t.Status), t.Summary, t.Model, t.ModelProvider, t.ModelProviderID,
		t.BillingSurface, t.BillingMode, t.ReasoningEffort, t.MaxOutputTokens, millis(t.CreatedAt), seq)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO native_items (id, thread_id, turn_id, round, kind, status, text, route)
		VALUES (?, ?, ?, ?, ?, 'in_progress', ?, '')`,
		a.ItemID, t.ThreadID, t.ID, round, string(native.ItemUser), a.Prompt)
	if err != nil {
		return err
	}
	for i, img := range a.Images {
		_, err = tx.Exec(ctx, `INSERT INTO native_images (item_id, ordinal, mime, data) VALUES (?, ?, ?, ?)`,
			a.ItemID, i, img.Mime, img.DataBase64)
		if err != nil {
			return err
		}
	}
	if err := insertEvent(ctx, tx, seq, t.ThreadID, t.ID, nil, a.Started); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE native_threads SET latest_turn_id = ?, updated_at = ? WHERE id = ?`,
		t.ID, millis(t.CreatedAt), t.ThreadID)
	return err
}

// AppendDeltas implements native.Store.
func (s *Native) AppendDeltas(ctx context.Context, threadID, turnID string, deltas []native.Delta) error {
	return s.update(ctx, func(tx *sqldb.Tx) error {
		seq, round, err := seqOfRound(ctx, tx, threadID, turnID, len(deltas))
		if err != nil {
			return err
		}
		for i, d := range deltas {
			if d.New {
				_, err := tx.Exec(ctx, `INSERT INTO native_items (id, thread_id, turn_id, round, kind, status, text, route)
					VALUES (?, ?, ?, ?, ?, 'in_progress', '', ?)`,
					d.ItemID, threadID, turnID, round, string(d.Kind), d.Route)
				if err != nil {
					return err
				}
			}
			if err := insertEvent(ctx, tx, seq+int64(i), threadID, turnID, d.ItemID, d.Event); err != nil {
				return err
			}
		}
		return nil
	})
}

// seqOfRound gives out n sequence numbers to the round that a turn is in. It fails
// for a turn that has ended or was never there. It is one statement because it
// stands in the way of every delta.
func seqOfRound(ctx context.Context, tx *sqldb.Tx, threadID, turnID string, n int) (first, round int64, err error) {
	var found, live sql.NullInt64
	err = tx.QueryRow(ctx, `UPDATE native_store SET next_seq = next_seq + ? WHERE id = 1 RETURNING next_seq,
		(SELECT round FROM native_turns WHERE id = ? AND thread_id = ?),
		(SELECT round FROM native_turns WHERE id = ? AND completed_seq IS NULL)`,
		n, turnID, threadID, turnID).Scan(&first, &found, &live)
	switch {
	case err != nil:
		return 0, 0, err
	case !found.Valid:
		return 0, 0, native.ErrNotFound
	case !live.Valid:
		return 0, 0, native.ErrOver
	}
	return first - int64(n), found.Int64, nil
}

// live tells whether a turn runs. Errors: sql.ErrNoRows for one that was never there.
func live(ctx context.Context, tx *sqldb.Tx, threadID, turnID string) (live bool, err error) {
	err = tx.QueryRow(ctx, `SELECT completed_seq IS NULL FROM native_turns WHERE id = ? AND thread_id = ?`,
		turnID, threadID).Scan(&live)
	return live, err
}

// RequestInterrupt implements native.Store.
func (s *Native) RequestInterrupt(ctx context.Context, threadID, turnID string, e native.Event) error {
	return s.update(ctx, func(tx *sqldb.Tx) error {
		res, err := tx.Exec(ctx, `UPDATE native_turns SET interrupt_requested = 1
			WHERE id = ? AND thread_id = ? AND completed_seq IS NULL AND interrupt_requested = 0`, turnID, threadID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		seq, err := nextSeq(ctx, tx, 1)
		if err != nil {
			return err
		}
		return insertEvent(ctx, tx, seq, threadID, turnID, nil, e)
	})
}

// CompleteTurn implements native.Store.
func (s *Native) CompleteTurn(ctx context.Context, c native.Completion) error {
	return s.update(ctx, func(tx *sqldb.Tx) error {
		live, err := live(ctx, tx, c.ThreadID, c.TurnID)
		if err != nil || !live {
			return err
		}
		seq, err := nextSeq(ctx, tx, 1)
		if err != nil {
			return err
		}
		var usage any
		if c.Usage != nil {
			usage = string(c.Usage)
		}
		_, err = tx.Exec(ctx, `UPDATE native_turns SET status = ?, ended_at = ?, usage = ?, error = ?,
			response_id = ?, response_model = ?, completed_seq = ? WHERE id = ?`,
			string(c.Status), millis(c.EndedAt), usage, c.Error, c.ResponseID, c.ResponseModel, seq, c.TurnID)
		if err != nil {
			return err
		}
		if err := completeItems(ctx, tx, string(c.Status), c.Answer, c.Reasoning, c.TurnID); err != nil {
			return err
		}
		if err := insertEvent(ctx, tx, seq, c.ThreadID, c.TurnID, nil, c.Completed); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE native_threads SET updated_at = ? WHERE id = ?`, millis(c.EndedAt), c.ThreadID)
		return err
	})
}

// completeItems ends the items of the round that a turn is in.
func completeItems(ctx context.Context, tx *sqldb.Tx, status, answer, reasoning, turnID string) error {
	_, err := tx.Exec(ctx, `UPDATE native_items SET status = ?, text = CASE kind
			WHEN 'agent_message' THEN ? WHEN 'agent_reasoning' THEN ? ELSE text END
		WHERE turn_id = ? AND status = 'in_progress'`, status, answer, reasoning, turnID)
	return err
}

// Turn implements native.Store.
func (s *Native) Turn(ctx context.Context, threadID, turnID string) (t native.Turn, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) (err error) {
		t, err = scanNativeTurn(tx.QueryRow(ctx, `SELECT `+nativeTurnColumns+` FROM native_turns t
			WHERE t.id = ? AND t.thread_id = ?`, turnID, threadID).Scan)
		return err
	})
	return t, err
}

// LiveTurns implements native.Store.
func (s *Native) LiveTurns(ctx context.Context) (turns []native.Turn, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) error {
		turns = nil
		rows, err := tx.Query(ctx, `SELECT `+nativeTurnColumns+` FROM native_turns t
			WHERE t.completed_seq IS NULL ORDER BY t.started_seq`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			t, err := scanNativeTurn(rows.Scan)
			if err != nil {
				return err
			}
			turns = append(turns, t)
		}
		return rows.Err()
	})
	return turns, err
}

// Streamed implements native.Store.
func (s *Native) Streamed(ctx context.Context, threadID, turnID string) (answer, reasoning string, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) error {
		var text, thought strings.Builder
		rows, err := tx.Query(ctx, `SELECT e.seq, e.payload FROM native_turns t
			JOIN native_events e ON e.thread_id = t.thread_id AND e.turn_id = t.id AND e.seq > coalesce(
				(SELECT max(d.seq) FROM native_deliveries d WHERE d.turn_id = t.id), t.started_seq)
			WHERE t.id = ? AND t.thread_id = ? AND e.event = ? ORDER BY e.seq`,
			turnID, threadID, wire.EventItemDelta)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var seq int64
			var raw []byte
			var d wire.DeltaPayload
			if err := rows.Scan(&seq, &raw); err != nil {
				return err
			}
			if err := json.Unmarshal(raw, &d); err != nil {
				return corrupt(fmt.Sprintf("event %d of the native ledger", seq))
			}
			if d.Kind == wire.DeltaReasoning {
				thought.WriteString(d.Delta)
			} else {
				text.WriteString(d.Delta)
			}
		}
		answer, reasoning = text.String(), thought.String()
		return rows.Err()
	})
	return answer, reasoning, err
}
