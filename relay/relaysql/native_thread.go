package relaysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// CreateThread implements native.Store.
func (s *Native) CreateThread(ctx context.Context, t native.Thread, copyFrom string, e native.Event) error {
	return s.update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO native_threads
			(id, created_at, updated_at, model, model_provider, model_provider_id, reasoning_effort, system_prompt)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			t.ID, millis(t.CreatedAt), millis(t.CreatedAt), t.Model, t.ModelProvider, t.ModelProviderID,
			t.ReasoningEffort, t.SystemPrompt)
		if err != nil {
			return err
		}
		if copyFrom != "" {
			if err := copyRounds(ctx, tx, copyFrom, t.ID); err != nil {
				return err
			}
		}
		seq, err := nextSeq(ctx, tx, 1)
		if err != nil {
			return err
		}
		return insertEvent(ctx, tx, seq, t.ID, nil, nil, e)
	})
}

// copyRounds gives thread to the completed, cut and stopped rounds of thread from, as
// items of its own without a turn. An item's copy is named after the new thread,
// its round and its kind, which nothing else is.
func copyRounds(ctx context.Context, tx *sqldb.Tx, from, to string) error {
	var found int
	if err := tx.QueryRow(ctx, `SELECT 1 FROM native_threads WHERE id = ?`, from).Scan(&found); err != nil {
		return err
	}
	const copied = `i.thread_id = ? AND i.status IN ('completed', 'cut', 'interrupted')`
	const newID = `'item_' || substr(?, 5) || '_' || i.round || '_' || i.kind`
	_, err := tx.Exec(ctx, `INSERT INTO native_items (id, thread_id, turn_id, round, kind, status, text, route)
		SELECT `+newID+`, ?, NULL, i.round, i.kind, i.status, i.text, i.route
		FROM native_items i WHERE `+copied, to, to, from)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO native_images (item_id, ordinal, mime, data)
		SELECT `+newID+`, m.ordinal, m.mime, m.data
		FROM native_items i JOIN native_images m ON m.item_id = i.id WHERE `+copied, to, from)
	return err
}

// DiscardThread implements native.Store.
func (s *Native) DiscardThread(ctx context.Context, id string) error {
	return s.update(ctx, func(tx *sqldb.Tx) error {
		var turns int
		err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM native_turns WHERE thread_id = t.id)
			FROM native_threads t WHERE t.id = ?`, id).Scan(&turns)
		if err != nil {
			return err
		}
		if turns > 0 {
			return native.ErrOwnsTurns
		}
		for _, q := range []string{
			`DELETE FROM native_images WHERE item_id IN (SELECT id FROM native_items WHERE thread_id = ?)`,
			`DELETE FROM native_items WHERE thread_id = ?`,
			`DELETE FROM native_events WHERE thread_id = ?`,
			`DELETE FROM native_threads WHERE id = ?`,
		} {
			if _, err := tx.Exec(ctx, q, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Thread implements native.Store.
func (s *Native) Thread(ctx context.Context, id string) (t native.Thread, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) error {
		var created int64
		err := tx.QueryRow(ctx, `SELECT id, created_at, model, model_provider, model_provider_id,
			reasoning_effort, system_prompt FROM native_threads WHERE id = ?`, id).
			Scan(&t.ID, &created, &t.Model, &t.ModelProvider, &t.ModelProviderID, &t.ReasoningEffort, &t.SystemPrompt)
		t.CreatedAt = fromMillis(created)
		return err
	})
	return t, err
}

// Rounds implements native.Store.
func (s *Native) Rounds(ctx context.Context, threadID string) (rounds []native.Round, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) error {
		rounds = nil
		at := make(map[int64]int) // round → index
		items, err := tx.Query(ctx, `SELECT round, kind, status, text, route FROM native_items
			WHERE thread_id = ? AND status <> 'in_progress' ORDER BY round`, threadID)
		if err != nil {
			return err
		}
		defer items.Close()
		for items.Next() {
			var round int64
			var kind, status, text, route string
			if err := items.Scan(&round, &kind, &status, &text, &route); err != nil {
				return err
			}
			i, ok := at[round]
			if !ok {
				i = len(rounds)
				at[round] = i
				rounds = append(rounds, newRound(status))
			}
			addItem(&rounds[i], native.ItemKind(kind), text, route)
		}
		if err := items.Err(); err != nil {
			return err
		}
		return readImages(ctx, tx, threadID, func(round int64, img wire.Image) {
			if i, ok := at[round]; ok {
				rounds[i].Images = append(rounds[i].Images, img)
			}
		})
	})
	return rounds, err
}

func newRound(status string) native.Round {
	if status == statusCut {
		return native.Round{Status: relay.NativeInterrupted, Cut: true}
	}
	return native.Round{Status: relay.NativeStatus(status)}
}

func addItem(r *native.Round, kind native.ItemKind, text, route string) {
	switch kind {
	case native.ItemUser:
		r.Prompt = text
	case native.ItemAnswer:
		r.Answer, r.Route = text, route
	case native.ItemReasoning:
		r.Reasoning, r.Route = text, route
	}
}

func readImages(ctx context.Context, tx *sqldb.Tx, threadID string, add func(int64, wire.Image)) error {
	rows, err := tx.Query(ctx, `SELECT i.round, m.mime, m.data FROM native_items i
		JOIN native_images m ON m.item_id = i.id WHERE i.thread_id = ? ORDER BY i.round, m.ordinal`, threadID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var round int64
		var img wire.Image
		if err := rows.Scan(&round, &img.Mime, &img.DataBase64); err != nil {
			return err
		}
		add(round, img)
	}
	return rows.Err()
}

// Events implements native.Store.
func (s *Native) Events(ctx context.Context, threadID string, after uint64, limit int) (events []relay.NativeEvent, err error) {
	err = s.view(ctx, func(tx *sqldb.Tx) error {
		events = nil
		rows, err := tx.Query(ctx, `SELECT seq, turn_id, item_id, event, at, payload FROM native_events
			WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?`, threadID, after, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			e := relay.NativeEvent{ThreadID: threadID}
			var turnID, itemID sql.NullString
			var at int64
			if err := rows.Scan(&e.Seq, &turnID, &itemID, &e.Event, &at, (*[]byte)(&e.Payload)); err != nil {
				return err
			}
			if len(e.Payload) == 0 {
				return corrupt(fmt.Sprintf("event %d of the native ledger", e.Seq))
			}
			e.TurnID, e.ItemID, e.Timestamp = turnID.String, itemID.String, fromMillis(at)
			events = append(events, e)
		}
		return rows.Err()
	})
	return events, err
}
