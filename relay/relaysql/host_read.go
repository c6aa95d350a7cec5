package relaysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/sqldb"
)

const (
	scopeColumns   = `s.scope_key, s.target_ref, s.session_id, s.owner_fingerprint, s.created_at`
	bindingColumns = `b.ordinal, b.run_id, b.binding_id, b.virtual_thread_id, b.native_thread_id,
		b.model, b.model_provider, b.model_provider_id, b.first_operation, b.system_prompt,
		b.continued_from, b.projected_seq, b.created_at`
	turnColumns = `t.run_id, t.binding_id, t.turn_id, t.native_turn_id, t.operation_fingerprint,
		t.request_fingerprint, t.terminal_projected, t.start_rejected, t.reserved_at, t.settled_at`
)

func scanScope(row scanner) (r relay.ScopeRecord, err error) {
	var created int64
	err = row.Scan(&r.Key, &r.TargetRef, &r.SessionID, &r.OwnerFingerprint, &created)
	r.CreatedAt = fromMillis(created)
	return r, err
}

func scanBinding(row scanner) (b relay.Binding, err error) {
	var system, from sql.NullString
	var created, projected int64
	err = row.Scan(&b.Ordinal, &b.RunID, &b.BindingID, &b.VirtualThreadID, &b.NativeThreadID,
		&b.Model, &b.ModelProvider, &b.ModelProviderID, &b.FirstOperation, &system,
		&from, &projected, &created)
	b.SystemPrompt, b.ContinuedFrom = system.String, from.String
	b.ProjectedSeq, b.CreatedAt = uint64(projected), fromMillis(created)
	return b, err
}

func scanTurn(row scanner) (t relay.Turn, err error) {
	var reserved int64
	var settled sql.NullInt64
	err = row.Scan(&t.RunID, &t.BindingID, &t.TurnID, &t.NativeTurnID, &t.OperationFingerprint,
		&t.RequestFingerprint, &t.TerminalProjected, &t.StartRejected, &reserved, &settled)
	t.ReservedAt = fromMillis(reserved)
	if settled.Valid {
		t.SettledAt = fromMillis(settled.Int64)
	}
	return t, err
}

// LoadScope implements relay.Store.
func (h *Host) LoadScope(ctx context.Context, key string) (state relay.ScopeState, err error) {
	err = h.view(ctx, func(tx *sqldb.Tx) error {
		state.Scope, err = scanScope(tx.QueryRow(ctx, `SELECT `+scopeColumns+` FROM relay_scopes s WHERE s.scope_key = ?`, key))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err != nil {
			state.Scope = relay.ScopeRecord{}
		}
		state.Unsettled, err = many(ctx, tx, scanTurn, `SELECT `+turnColumns+` FROM relay_turns t
			WHERE t.scope_key = ? AND t.terminal_projected = 0`, key)
		if err != nil {
			return err
		}
		state.Bindings, err = many(ctx, tx, scanBinding, `SELECT `+bindingColumns+` FROM relay_bindings b
			WHERE b.scope_key = ? AND b.binding_id IN (
				SELECT t.binding_id FROM relay_turns t WHERE t.scope_key = ? AND t.terminal_projected = 0)
			ORDER BY b.ordinal`, key, key)
		if err != nil {
			return err
		}
		if state.Scope.Key == "" && len(state.Bindings) == 0 {
			return orphanBinding(ctx, tx, key, &state)
		}
		state.Integrity, err = integrityOf(ctx, tx, key)
		return err
	})
	return state, err
}

// orphanBinding looks for a binding of a scope that has no row, which only a file
// that was changed by something else can hold.
func orphanBinding(ctx context.Context, tx *sqldb.Tx, key string, state *relay.ScopeState) (err error) {
	state.Bindings, err = many(ctx, tx, scanBinding,
		`SELECT `+bindingColumns+` FROM relay_bindings b WHERE b.scope_key = ? LIMIT 1`, key)
	return err
}

func integrityOf(ctx context.Context, tx *sqldb.Tx, key string) (map[string]uint64, error) {
	type entry struct {
		run string
		seq uint64
	}
	entries, err := many(ctx, tx, func(row scanner) (e entry, err error) {
		err = row.Scan(&e.run, &e.seq)
		return e, err
	}, `SELECT run_id, MAX(seq) FROM relay_journal WHERE scope_key = ? AND integrity = 1 GROUP BY run_id`, key)
	if err != nil {
		return nil, err
	}
	out := make(map[string]uint64, len(entries))
	for _, e := range entries {
		out[e.run] = e.seq
	}
	return out, nil
}

// LoadRun implements relay.Store.
func (h *Host) LoadRun(ctx context.Context, key, runID string) (state relay.RunState, err error) {
	err = h.view(ctx, func(tx *sqldb.Tx) error {
		err := tx.QueryRow(ctx, `SELECT cursor FROM relay_runs WHERE scope_key = ? AND run_id = ?`, key, runID).Scan(&state.Cursor)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		state.Pending, err = many(ctx, tx, h.scanEntry, `SELECT seq, integrity, envelope FROM relay_journal
			WHERE scope_key = ? AND run_id = ? ORDER BY seq`, key, runID)
		return err
	})
	return state, err
}

func (h *Host) scanEntry(row scanner) (e relay.JournalEntry, err error) {
	var text string
	var seq uint64
	if err := row.Scan(&seq, &e.Integrity, &text); err != nil {
		return e, err
	}
	if err := json.Unmarshal([]byte(text), &e.Envelope); err != nil {
		return e, h.untrusted("a journaled envelope cannot be read", err)
	}
	if e.Envelope.Seq != seq {
		return e, h.untrusted("a journaled envelope has another place than its row", nil)
	}
	return e, nil
}

// BusyScopes implements relay.Store.
func (h *Host) BusyScopes(ctx context.Context) (out []relay.ScopeRecord, err error) {
	err = h.view(ctx, func(tx *sqldb.Tx) error {
		out, err = many(ctx, tx, scanScope, `SELECT `+scopeColumns+` FROM relay_scopes s WHERE s.scope_key IN (
			SELECT t.scope_key FROM relay_turns t WHERE t.terminal_projected = 0
			UNION SELECT j.scope_key FROM relay_journal j WHERE j.integrity = 1)
			ORDER BY s.created_at, s.scope_key`)
		return err
	})
	return out, err
}

// Binding implements relay.Store.
func (h *Host) Binding(ctx context.Context, key, bindingID string) (relay.Binding, bool, error) {
	return one(ctx, h, scanBinding, `SELECT `+bindingColumns+` FROM relay_bindings b
		WHERE b.scope_key = ? AND b.binding_id = ?`, key, bindingID)
}

// BindingByThread implements relay.Store.
func (h *Host) BindingByThread(ctx context.Context, key, virtualThreadID string) (relay.Binding, bool, error) {
	return one(ctx, h, scanBinding, `SELECT `+bindingColumns+` FROM relay_bindings b
		WHERE b.scope_key = ? AND b.virtual_thread_id = ?`, key, virtualThreadID)
}

// BindingByNative implements relay.Store.
func (h *Host) BindingByNative(ctx context.Context, key, nativeThreadID string) (relay.Binding, bool, error) {
	return one(ctx, h, scanBinding, `SELECT `+bindingColumns+` FROM relay_bindings b
		WHERE b.native_thread_id = ? AND b.scope_key = ?`, nativeThreadID, key)
}

// Turn implements relay.Store.
func (h *Host) Turn(ctx context.Context, key, bindingID, turnID string) (relay.Turn, bool, error) {
	return one(ctx, h, scanTurn, `SELECT `+turnColumns+` FROM relay_turns t
		WHERE t.scope_key = ? AND t.binding_id = ? AND t.turn_id = ?`, key, bindingID, turnID)
}

// TurnInRun implements relay.Store.
func (h *Host) TurnInRun(ctx context.Context, key, runID, turnID string) (relay.Turn, bool, error) {
	return one(ctx, h, scanTurn, `SELECT `+turnColumns+` FROM relay_turns t
		WHERE t.scope_key = ? AND t.turn_id = ? AND t.run_id = ? ORDER BY t.reserved_at DESC LIMIT 1`, key, turnID, runID)
}

// TurnByOperation implements relay.Store.
func (h *Host) TurnByOperation(ctx context.Context, key, bindingID, operationFingerprint string) (relay.Turn, bool, error) {
	return one(ctx, h, scanTurn, `SELECT `+turnColumns+` FROM relay_turns t
		WHERE t.scope_key = ? AND t.binding_id = ? AND t.operation_fingerprint = ?`, key, bindingID, operationFingerprint)
}

// TurnByNative implements relay.Store.
func (h *Host) TurnByNative(ctx context.Context, key, bindingID, nativeTurnID string) (relay.Turn, bool, error) {
	return one(ctx, h, scanTurn, `SELECT `+turnColumns+` FROM relay_turns t
		WHERE t.scope_key = ? AND t.binding_id = ? AND t.native_turn_id = ?`, key, bindingID, nativeTurnID)
}

// ListScopes implements relay.Store. The counts are those of the page's scopes.
func (h *Host) ListScopes(ctx context.Context, after relay.ScopeRecord, limit int) (out []relay.ScopeSummary, err error) {
	created := int64(math.MaxInt64)
	if !after.CreatedAt.Equal(time.Time{}) {
		created = millis(after.CreatedAt)
	}
	err = h.view(ctx, func(tx *sqldb.Tx) error {
		out, err = many(ctx, tx, func(row scanner) (s relay.ScopeSummary, err error) {
			var at int64
			err = row.Scan(&s.Key, &s.TargetRef, &s.SessionID, &s.OwnerFingerprint, &at, &s.Bindings, &s.Unsettled)
			s.CreatedAt = fromMillis(at)
			return s, err
		}, `SELECT `+scopeColumns+`, s.next_ordinal - 1,
				(SELECT COUNT(*) FROM relay_turns t WHERE t.scope_key = s.scope_key AND t.terminal_projected = 0)
			FROM relay_scopes s
			WHERE s.created_at < ? OR (s.created_at = ? AND s.scope_key < ?)
			ORDER BY s.created_at DESC, s.scope_key DESC LIMIT ?`, created, created, after.Key, limit)
		return err
	})
	return out, err
}

// ListBindings implements relay.Store.
func (h *Host) ListBindings(ctx context.Context, key string, afterOrdinal int64, limit int) (out []relay.Binding, err error) {
	err = h.view(ctx, func(tx *sqldb.Tx) error {
		out, err = many(ctx, tx, scanBinding, `SELECT `+bindingColumns+` FROM relay_bindings b
			WHERE b.scope_key = ? AND b.ordinal > ? ORDER BY b.ordinal LIMIT ?`, key, afterOrdinal, limit)
		return err
	})
	return out, err
}

// ListTurns implements relay.Store.
func (h *Host) ListTurns(ctx context.Context, key, bindingID, afterTurnID string, limit int) (out []relay.Turn, err error) {
	err = h.view(ctx, func(tx *sqldb.Tx) error {
		out, err = many(ctx, tx, scanTurn, `SELECT `+turnColumns+` FROM relay_turns t
			WHERE t.scope_key = ? AND t.binding_id = ? AND t.turn_id > ? ORDER BY t.turn_id LIMIT ?`,
			key, bindingID, afterTurnID, limit)
		return err
	})
	return out, err
}
