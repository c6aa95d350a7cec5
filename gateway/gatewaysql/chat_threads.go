package gatewaysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/fairlead/fairlead/gateway"
)

const agentColumns = `id, org_id, owner_account_id, name, description, instructions, model, private, is_default,
	created_at, updated_at, COALESCE(deleted_at, 0)`

func scanAgent(r rowScanner) (a gateway.AgentRow, err error) {
	var private, standard int
	err = r.Scan(&a.ID, &a.OrgID, &a.OwnerID, &a.Name, &a.Description, &a.Instructions, &a.Model, &private, &standard,
		&a.CreatedAt, &a.UpdatedAt, &a.DeletedAt)
	a.Private, a.Default = private != 0, standard != 0
	return a, err
}

func (tx chatTx) Agent(ctx context.Context, orgID, agentID string) (gateway.AgentRow, error) {
	return one("read agent", tx.QueryRow(ctx,
		`SELECT `+agentColumns+` FROM agents WHERE org_id = ? AND id = ?`, orgID, agentID), scanAgent)
}

func (tx chatTx) InsertAgent(ctx context.Context, a gateway.AgentRow) error {
	return tx.insert(ctx, "insert agent", `
		INSERT INTO agents (id, org_id, owner_account_id, name, description, instructions, model, private, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		a.ID, a.OrgID, a.OwnerID, a.Name, a.Description, a.Instructions, a.Model, flag(a.Private), a.CreatedAt, a.UpdatedAt)
}

func (tx chatTx) UpdateAgent(ctx context.Context, a gateway.AgentRow) error {
	return tx.exec(ctx, "update agent", `
		UPDATE agents SET name = ?, description = ?, instructions = ?, model = ?, private = ?, updated_at = ?, deleted_at = ?
		WHERE id = ? AND org_id = ?`,
		a.Name, a.Description, a.Instructions, a.Model, flag(a.Private), a.UpdatedAt, optional(a.DeletedAt), a.ID, a.OrgID)
}

func (tx chatTx) Agents(ctx context.Context, orgID, accountID string) ([]gateway.AgentRow, error) {
	return many(ctx, tx, "list agents", scanAgent, `
		SELECT `+agentColumns+` FROM agents
		WHERE org_id = ? AND deleted_at IS NULL AND (private = 0 OR owner_account_id = ?)
		ORDER BY is_default DESC, LOWER(name), id`, orgID, accountID)
}

func (tx chatTx) DefaultAgent(ctx context.Context, orgID, newID string, now int64) (gateway.AgentRow, error) {
	const query = `SELECT ` + agentColumns + ` FROM agents WHERE org_id = ? AND is_default = 1`
	a, err := one("read default agent", tx.QueryRow(ctx, query, orgID), scanAgent)
	if !errors.Is(err, gateway.ErrNoRow) {
		return a, err
	}
	if err := tx.exec(ctx, "insert default agent", `
		INSERT INTO agents (id, org_id, name, is_default, created_at, updated_at)
		VALUES (?, ?, 'Assistant', 1, ?, ?) ON CONFLICT DO NOTHING`, newID, orgID, now, now); err != nil {
		return a, err
	}
	return one("read default agent", tx.QueryRow(ctx, query, orgID), scanAgent)
}

// threadQuery reads threads with what stands beside them. The literals are those
// of the partial indexes.
const threadQuery = `
	SELECT t.id, t.org_id, t.account_id, t.agent_id, t.made_by, t.title, t.model, t.latest_seq, t.last_read_seq,
		t.created_at, t.updated_at, COALESCE(t.deleted_at, 0),
		(SELECT COUNT(*) FROM queue q WHERE q.thread_id = t.id),
		COALESCE(a.id, ''), COALESCE(a.status, ''),
		EXISTS (SELECT 1 FROM turns r WHERE r.thread_id = t.id AND r.recover_by IS NOT NULL),
		EXISTS (SELECT 1 FROM accounts o WHERE o.id = t.account_id AND o.disabled_at <> 0)
	FROM threads t
	LEFT JOIN turns a ON a.thread_id = t.id AND a.status IN ('queued', 'pending', 'running')`

func scanThread(r rowScanner) (t gateway.ThreadRow, err error) {
	var title, model sql.NullString
	var active gateway.TurnRef
	err = r.Scan(&t.ID, &t.OrgID, &t.AccountID, &t.AgentID, &t.MadeBy, &title, &model, &t.LatestSeq, &t.LastReadSeq,
		&t.CreatedAt, &t.UpdatedAt, &t.DeletedAt, &t.Waiting, &active.TurnID, &active.Status, &t.Recovering, &t.Disabled)
	if title.Valid {
		t.Title = &title.String
	}
	if model.Valid {
		t.Model = &model.String
	}
	if active.TurnID != "" {
		t.Active = &active
	}
	return t, err
}

func (tx chatTx) InsertThread(ctx context.Context, t gateway.ThreadRow) error {
	err := tx.insert(ctx, "insert thread", `
		INSERT INTO threads (id, org_id, account_id, agent_id, made_by, title, model, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		t.ID, t.OrgID, t.AccountID, t.AgentID, t.MadeBy, t.Title, t.Model, t.CreatedAt, t.UpdatedAt)
	if err == nil {
		tx.Sequence(threadKey(t.ID)) // nobody else has the row before the commit
	}
	return err
}

func (tx chatTx) Thread(ctx context.Context, threadID string) (gateway.ThreadRow, error) {
	return one("read thread", tx.QueryRow(ctx, threadQuery+` WHERE t.id = ?`, threadID), scanThread)
}

func (tx chatTx) UpdateThread(ctx context.Context, t gateway.ThreadRow) error {
	return tx.exec(ctx, "update thread", `
		UPDATE threads SET title = ?, model = ?, last_read_seq = ?, updated_at = ?, deleted_at = ? WHERE id = ?`,
		t.Title, t.Model, t.LastReadSeq, t.UpdatedAt, optional(t.DeletedAt), t.ID)
}

func (tx chatTx) EraseThread(ctx context.Context, threadID string) error {
	for _, query := range []string{
		`DELETE FROM queue WHERE thread_id = ?`,
		`DELETE FROM thread_events WHERE thread_id = ?`,
		`DELETE FROM turn_deltas WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`,
		`UPDATE turns SET partial = NULL, context = '' WHERE thread_id = ?`,
		`UPDATE commands SET state = 'dropped', body = '' WHERE kind = 'prompt.request' AND state IN ('parked', 'pending', 'sent')
			AND turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`,
		`UPDATE deliveries SET prompt = '' WHERE thread_id = ?`,
	} {
		if err := tx.exec(ctx, "erase thread", query, threadID); err != nil {
			return err
		}
	}
	return tx.exec(ctx, "erase thread", `UPDATE thread_feed SET title = NULL WHERE thread_id = ?`, threadID)
}

func (tx chatTx) Threads(ctx context.Context, q gateway.ThreadQuery) ([]gateway.ThreadRow, error) {
	query, args := threadQuery+` WHERE t.account_id = ? AND t.deleted_at IS NULL`, []any{q.AccountID}
	if q.BeforeID != "" {
		query += ` AND (t.updated_at < ? OR (t.updated_at = ? AND t.id < ?))`
		args = append(args, q.BeforeAt, q.BeforeAt, q.BeforeID)
	}
	if q.Match != "" {
		query += ` AND LOWER(t.title) LIKE LOWER(?) ESCAPE '!'`
		args = append(args, "%"+strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(q.Match)+"%")
	}
	query += ` ORDER BY t.updated_at DESC, t.id DESC LIMIT ?`
	return many(ctx, tx, "list threads", scanThread, query, append(args, q.Limit)...)
}

func (tx chatTx) IdleThreads(ctx context.Context, limit int) ([]string, error) {
	return many(ctx, tx, "list idle threads", scanText, `
		SELECT DISTINCT q.thread_id FROM queue q JOIN threads t ON t.id = q.thread_id
		WHERE NOT EXISTS (SELECT 1 FROM turns a WHERE a.thread_id = q.thread_id AND a.status IN ('queued', 'pending', 'running'))
		AND NOT EXISTS (SELECT 1 FROM turns r WHERE r.thread_id = q.thread_id AND r.recover_by IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM accounts o WHERE o.id = t.account_id AND o.disabled_at <> 0)
		LIMIT ?`, limit)
}

func scanClientEvent(r rowScanner) (e gateway.ClientEvent, err error) {
	var reply string
	var settled int
	err = r.Scan(&e.ID, &e.AccountID, &e.Kind, &e.ContentHash, &reply, &settled, &e.CreatedAt)
	e.Reply, e.Settled = json.RawMessage(reply), settled != 0
	return e, err
}

func (tx chatTx) ClaimClientEvent(ctx context.Context, e gateway.ClientEvent) (gateway.ClientEvent, bool, error) {
	n, err := tx.affected(ctx, "claim client event", `
		INSERT INTO client_events (id, account_id, kind, content_hash, created_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, e.ID, e.AccountID, e.Kind, e.ContentHash, e.CreatedAt)
	if err != nil || n == 1 {
		return e, n == 1, err
	}
	first, err := tx.ClientEvent(ctx, e.ID)
	return first, false, err
}

func (tx chatTx) ClientEvent(ctx context.Context, id string) (gateway.ClientEvent, error) {
	return one("read client event", tx.QueryRow(ctx, `
		SELECT id, account_id, kind, content_hash, reply, settled, created_at FROM client_events WHERE id = ?`, id), scanClientEvent)
}

func (tx chatTx) SetClientReply(ctx context.Context, id string, reply []byte, settled bool) error {
	return tx.exec(ctx, "store client reply", `UPDATE client_events SET reply = ?, settled = ? WHERE id = ?`,
		string(reply), flag(settled), id)
}
