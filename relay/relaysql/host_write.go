package relaysql

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// BindOwner implements relay.Store.
func (h *Host) BindOwner(ctx context.Context, r relay.ScopeRecord) error {
	return h.update(ctx, func(tx *sqldb.Tx) error {
		if err := insertScope(ctx, tx, r, 1); err != nil {
			return err
		}
		var owner string
		err := tx.QueryRow(ctx, `SELECT owner_fingerprint FROM relay_scopes WHERE scope_key = ?`, r.Key).Scan(&owner)
		if err != nil {
			return err
		}
		if owner != r.OwnerFingerprint {
			return wire.NewError(wire.CodeOwnerMismatch, "The scope is bound to another account.")
		}
		return nil
	})
}

func insertScope(ctx context.Context, tx *sqldb.Tx, r relay.ScopeRecord, nextOrdinal int) error {
	_, err := tx.Exec(ctx, `INSERT INTO relay_scopes
		(scope_key, target_ref, session_id, owner_fingerprint, next_ordinal, created_at)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (scope_key) DO NOTHING`,
		r.Key, r.TargetRef, r.SessionID, r.OwnerFingerprint, nextOrdinal, millis(r.CreatedAt))
	return err
}

// InsertBinding implements relay.Store.
func (h *Host) InsertBinding(ctx context.Context, key string, b relay.Binding) error {
	return h.update(ctx, func(tx *sqldb.Tx) error {
		err := tx.QueryRow(ctx, `UPDATE relay_scopes SET next_ordinal = next_ordinal + 1
			WHERE scope_key = ? RETURNING next_ordinal - 1`, key).Scan(&b.Ordinal)
		if errors.Is(err, sql.ErrNoRows) {
			return wire.NewError(wire.CodeOwnerUnbound, "No account is bound to this scope yet.")
		}
		if err != nil {
			return err
		}
		err = insertBinding(ctx, tx, key, b)
		if sqldb.IsUnique(err) {
			return wire.WrapError(wire.CodeBindingMismatch, "The binding or the thread is in use already.", err)
		}
		return err
	})
}

func insertBinding(ctx context.Context, tx *sqldb.Tx, key string, b relay.Binding) error {
	_, err := tx.Exec(ctx, `INSERT INTO relay_bindings
		(scope_key, binding_id, ordinal, run_id, virtual_thread_id, native_thread_id, model, model_provider,
		 model_provider_id, first_operation, system_prompt, continued_from, projected_seq, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		key, b.BindingID, b.Ordinal, b.RunID, b.VirtualThreadID, b.NativeThreadID, b.Model, b.ModelProvider,
		b.ModelProviderID, b.FirstOperation, orNull(b.SystemPrompt), orNull(b.ContinuedFrom),
		int64(b.ProjectedSeq), millis(b.CreatedAt))
	return err
}

// SaveTurn implements relay.Store. The row of a known turn is changed only where it
// is the same reservation.
func (h *Host) SaveTurn(ctx context.Context, key string, t relay.Turn) error {
	return h.update(ctx, func(tx *sqldb.Tx) error {
		res, err := tx.Exec(ctx, `INSERT INTO relay_turns
			(scope_key, binding_id, turn_id, run_id, native_turn_id, operation_fingerprint, request_fingerprint,
			 terminal_projected, start_rejected, reserved_at, settled_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (scope_key, binding_id, turn_id) DO UPDATE SET
				terminal_projected = excluded.terminal_projected, start_rejected = excluded.start_rejected,
				settled_at = excluded.settled_at
			WHERE relay_turns.native_turn_id = excluded.native_turn_id
				AND relay_turns.operation_fingerprint = excluded.operation_fingerprint
				AND relay_turns.request_fingerprint = excluded.request_fingerprint`, turnRow(key, t)...)
		if sqldb.IsUnique(err) {
			return wire.WrapError(wire.CodeOperationReused, "This operation key belongs to another turn.", err)
		}
		return requireRow(res, err, wire.CodeTurnMismatch, "This turn was reserved for a different request.")
	})
}

func turnRow(key string, t relay.Turn) []any {
	var settled any
	if !t.SettledAt.IsZero() {
		settled = millis(t.SettledAt)
	}
	return []any{
		key, t.BindingID, t.TurnID, t.RunID, t.NativeTurnID, t.OperationFingerprint, t.RequestFingerprint,
		flag(t.TerminalProjected), flag(t.StartRejected), millis(t.ReservedAt), settled,
	}
}

// AppendJournal implements relay.Store.
func (h *Host) AppendJournal(
	ctx context.Context, key, runID string, entries []relay.JournalEntry, cursors []relay.CursorMove,
) error {
	return h.update(ctx, func(tx *sqldb.Tx) error {
		for _, e := range entries {
			text, err := envelopeText(e.Envelope)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO relay_journal (scope_key, run_id, seq, integrity, envelope)
				VALUES (?, ?, ?, ?, ?)`, key, runID, int64(e.Envelope.Seq), flag(e.Integrity), text)
			if err != nil {
				return err
			}
		}
		return moveCursors(ctx, tx, key, cursors)
	})
}

// envelopeText keeps the payload's bytes as they are, so that what is read back is
// what was given out.
func envelopeText(e wire.Envelope) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return "", fmt.Errorf("encode an envelope: %w", err)
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// Advance implements relay.Store.
func (h *Host) Advance(ctx context.Context, key string, cursors []relay.CursorMove, settled []relay.Turn) error {
	return h.update(ctx, func(tx *sqldb.Tx) error {
		if err := moveCursors(ctx, tx, key, cursors); err != nil {
			return err
		}
		for _, t := range settled {
			res, err := tx.Exec(ctx, `UPDATE relay_turns
				SET terminal_projected = 1, start_rejected = 0, settled_at = COALESCE(settled_at, ?)
				WHERE scope_key = ? AND binding_id = ? AND turn_id = ?`,
				millis(t.SettledAt), key, t.BindingID, t.TurnID)
			if err := requireRow(res, err, wire.CodeTurnMismatch, "The end of an unknown turn was handed off."); err != nil {
				return err
			}
		}
		return nil
	})
}

func moveCursors(ctx context.Context, tx *sqldb.Tx, key string, cursors []relay.CursorMove) error {
	for _, c := range cursors {
		res, err := tx.Exec(ctx, `UPDATE relay_bindings
			SET projected_seq = CASE WHEN projected_seq < ? THEN ? ELSE projected_seq END
			WHERE scope_key = ? AND binding_id = ?`, int64(c.Seq), int64(c.Seq), key, c.BindingID)
		if err := requireRow(res, err, wire.CodeBindingMismatch, "The cursor of an unknown binding was moved."); err != nil {
			return err
		}
	}
	return nil
}

// Retire implements relay.Store.
func (h *Host) Retire(ctx context.Context, key, runID string, cursor uint64) error {
	return h.update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO relay_runs (scope_key, run_id, cursor) VALUES (?, ?, ?)
			ON CONFLICT (scope_key, run_id) DO UPDATE SET cursor = excluded.cursor
			WHERE relay_runs.cursor < excluded.cursor`, key, runID, int64(cursor))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM relay_journal WHERE scope_key = ? AND run_id = ? AND seq <= ?`,
			key, runID, int64(cursor))
		return err
	})
}

// ImportScope implements relay.Store.
func (h *Host) ImportScope(ctx context.Context, s relay.ImportedScope) error {
	return h.update(ctx, func(tx *sqldb.Tx) error {
		var there int
		err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM relay_scopes WHERE scope_key = ?`, s.Scope.Key).Scan(&there)
		if err != nil {
			return err
		}
		if there > 0 {
			return h.untrusted("this scope has state of its own, which an import would overwrite", nil)
		}
		if err := insertScope(ctx, tx, s.Scope, len(s.Bindings)+1); err != nil {
			return err
		}
		for _, b := range s.Bindings {
			if err := insertBinding(ctx, tx, s.Scope.Key, b); err != nil {
				return importFault(h, err)
			}
		}
		for _, t := range s.Turns {
			_, err := tx.Exec(ctx, `INSERT INTO relay_turns
				(scope_key, binding_id, turn_id, run_id, native_turn_id, operation_fingerprint, request_fingerprint,
				 terminal_projected, start_rejected, reserved_at, settled_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, turnRow(s.Scope.Key, t)...)
			if err != nil {
				return importFault(h, err)
			}
		}
		return nil
	})
}

// importFault tells a record that clashes with what is stored from a failing disk.
func importFault(h *Host, err error) error {
	if sqldb.IsUnique(err) {
		return h.untrusted("an imported record shares an id with a stored one", err)
	}
	return err
}

// requireRow turns a statement that changed nothing into a refusal.
func requireRow(res sql.Result, err error, code wire.Code, message string) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return wire.NewError(code, message)
	}
	return nil
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
