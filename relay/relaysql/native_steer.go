package relaysql

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// statusCut is the status of the items of a round that a steer cut.
const statusCut = "cut"

const stepColumns = `d.delivery_id, t.thread_id, d.turn_id, d.shown, d.cut, d.usage, d.response_id, d.response_model`

func scanStep(row scanner) (s native.Step, err error) {
	var shown int64
	var usage sql.NullString
	err = row.Scan(&s.DeliveryID, &s.ThreadID, &s.TurnID, &shown, &s.Cut, &usage, &s.ResponseID, &s.ResponseModel)
	if err != nil {
		return native.Step{}, err
	}
	s.At = uint64(shown)
	if usage.Valid {
		s.Usage = new(wire.Usage)
		if err := json.Unmarshal([]byte(usage.String), s.Usage); err != nil {
			return native.Step{}, corrupt("the delivery " + s.DeliveryID)
		}
	}
	return s, nil
}

// TakeSteer implements native.Store.
func (s *Native) TakeSteer(ctx context.Context, st native.Steering) error {
	return s.update(ctx, func(tx *sqldb.Tx) error {
		known, err := many(ctx, tx, scanStep, `SELECT `+stepColumns+` FROM native_deliveries d
			JOIN native_turns t ON t.id = d.turn_id WHERE d.delivery_id = ?`, st.DeliveryID)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			if known[0].TurnID != st.TurnID {
				return native.ErrTaken
			}
			return nil
		}
		var open bool
		err = tx.QueryRow(ctx, `SELECT completed_seq IS NULL AND interrupt_requested = 0 FROM native_turns
			WHERE id = ? AND thread_id = ?`, st.TurnID, st.ThreadID).Scan(&open)
		if err != nil {
			return err
		}
		if !open {
			return native.ErrOver
		}
		return beginRound(ctx, tx, st)
	})
}

// beginRound ends the round that a turn is in and begins the next one.
func beginRound(ctx context.Context, tx *sqldb.Tx, st native.Steering) error {
	status := string(relay.NativeCompleted)
	if st.Cut {
		status = statusCut
	}
	if err := completeItems(ctx, tx, status, st.Answer, st.Reasoning, st.TurnID); err != nil {
		return err
	}
	var round int64
	err := tx.QueryRow(ctx, `UPDATE native_turns SET round = round + 1 WHERE id = ? RETURNING round`, st.TurnID).Scan(&round)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO native_items (id, thread_id, turn_id, round, kind, status, text, route)
		VALUES (?, ?, ?, ?, ?, 'in_progress', ?, '')`,
		st.ItemID, st.ThreadID, st.TurnID, round, string(native.ItemUser), st.Text)
	if err != nil {
		return err
	}
	seq, err := nextSeq(ctx, tx, 1)
	if err != nil {
		return err
	}
	if err := insertEvent(ctx, tx, seq, st.ThreadID, st.TurnID, st.ItemID, st.Event); err != nil {
		return err
	}
	var usage any
	if st.Usage != nil {
		raw, err := json.Marshal(st.Usage)
		if err != nil {
			return err
		}
		usage = string(raw)
	}
	_, err = tx.Exec(ctx, `INSERT INTO native_deliveries
		(delivery_id, turn_id, round, seq, shown, cut, usage, response_id, response_model)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		st.DeliveryID, st.TurnID, round, seq, int64(st.At), st.Cut, usage, st.ResponseID, st.ResponseModel)
	return err
}

// Delivery implements native.Store.
func (s *Native) Delivery(ctx context.Context, deliveryID string) (step native.Step, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) (err error) {
		step, err = scanStep(tx.QueryRow(ctx, `SELECT `+stepColumns+` FROM native_deliveries d
			JOIN native_turns t ON t.id = d.turn_id WHERE d.delivery_id = ?`, deliveryID))
		return err
	})
	return step, err
}

// Steps implements native.Store.
func (s *Native) Steps(ctx context.Context, turnID string) (steps []native.Step, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) (err error) {
		steps, err = many(ctx, tx, scanStep, `SELECT `+stepColumns+` FROM native_deliveries d
			JOIN native_turns t ON t.id = d.turn_id WHERE d.turn_id = ? ORDER BY d.round`, turnID)
		return err
	})
	return steps, err
}
