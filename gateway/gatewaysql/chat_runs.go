package gatewaysql

import (
	"context"
	"encoding/json"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

const runQuery = `
	SELECT id, org_id, account_id, thread_id, host_id, target_ref, cursor_seq, created_at FROM runs`

func scanRun(r rowScanner) (n gateway.RunRow, err error) {
	return n, r.Scan(&n.ID, &n.OrgID, &n.AccountID, &n.ThreadID, &n.HostID, &n.TargetRef, &n.Cursor, &n.CreatedAt)
}

func (tx chatTx) RunFor(ctx context.Context, threadID, hostID, targetRef string) (gateway.RunRow, error) {
	return one("read run", tx.QueryRow(ctx,
		runQuery+` WHERE thread_id = ? AND host_id = ? AND target_ref = ?`, threadID, hostID, targetRef), scanRun)
}

func (tx chatTx) InsertRun(ctx context.Context, r gateway.RunRow) error {
	return tx.insert(ctx, "insert run", `
		INSERT INTO runs (id, org_id, account_id, thread_id, host_id, target_ref, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		r.ID, r.OrgID, r.AccountID, r.ThreadID, r.HostID, r.TargetRef, r.CreatedAt)
}

func (tx chatTx) Run(ctx context.Context, runID string) (gateway.RunRow, error) {
	return one("read run", tx.QueryRow(ctx, runQuery+` WHERE id = ?`, runID), scanRun)
}

// openRuns selects what a host still owes an answer or an end to. Each part is
// served by a partial index, so its cost is that of the open work.
const openRuns = `
	SELECT c.run_id AS run_id FROM commands c WHERE c.state IN ('pending', 'sent')
	UNION ALL SELECT a.run_id FROM turns a WHERE a.status IN ('queued', 'pending', 'running')
	UNION ALL SELECT b.run_id FROM turns b WHERE b.recover_by IS NOT NULL`

const runsOfHost = `SELECT r.id FROM runs r WHERE r.host_id = ? AND r.id IN (` + openRuns + `) ORDER BY r.id`

// busyRun counts what openRuns would find of a run.
const busyRun = `
	SELECT (SELECT COUNT(*) FROM commands c WHERE c.run_id = r.id AND c.state IN ('pending', 'sent'))
		+ (SELECT COUNT(*) FROM turns a WHERE a.thread_id = r.thread_id AND a.run_id = r.id
			AND a.status IN ('queued', 'pending', 'running'))
		+ (SELECT COUNT(*) FROM turns b WHERE b.thread_id = r.thread_id AND b.run_id = r.id AND b.recover_by IS NOT NULL)
	FROM runs r WHERE r.id = ?`

func (tx chatTx) OpenRuns(ctx context.Context, hostID string) ([]string, error) {
	return many(ctx, tx, "list open runs", scanText, runsOfHost, hostID)
}

func (tx chatTx) RunBusy(ctx context.Context, runID string) (bool, error) {
	n, err := one("look for open work", tx.QueryRow(ctx, busyRun, runID), scanInt)
	return n > 0, err
}

func (tx chatTx) RaiseCursor(ctx context.Context, runID string, cursor uint64) error {
	return tx.exec(ctx, "raise cursor",
		`UPDATE runs SET cursor_seq = ? WHERE id = ? AND cursor_seq < ?`, cursor, runID, cursor)
}

const bindingQuery = `
	SELECT id, run_id, model_provider, model_provider_id, model, virtual_thread_id, continue_from, applied, created_at
	FROM bindings`

func scanBinding(r rowScanner) (b gateway.BindingRow, err error) {
	var applied int
	err = r.Scan(&b.ID, &b.RunID, &b.ModelProvider, &b.ModelProviderID, &b.Model, &b.VirtualThreadID,
		&b.ContinueFrom, &applied, &b.CreatedAt)
	b.Applied = applied != 0
	return b, err
}

func (tx chatTx) InsertBinding(ctx context.Context, b gateway.BindingRow) error {
	return tx.insert(ctx, "insert binding", `
		INSERT INTO bindings (id, run_id, model_provider, model_provider_id, model, virtual_thread_id, continue_from, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		b.ID, b.RunID, b.ModelProvider, b.ModelProviderID, b.Model, b.VirtualThreadID, b.ContinueFrom, b.CreatedAt)
}

func (tx chatTx) Binding(ctx context.Context, bindingID string) (gateway.BindingRow, error) {
	return one("read binding", tx.QueryRow(ctx, bindingQuery+` WHERE id = ?`, bindingID), scanBinding)
}

// latestBinding goes through the runs of the thread: one for each host that it was at.
const latestBinding = `
	SELECT b.id, b.run_id, b.model_provider, b.model_provider_id, b.model, b.virtual_thread_id, b.continue_from, b.applied,
		b.created_at, r.host_id
	FROM runs r JOIN bindings b ON b.run_id = r.id
	WHERE r.thread_id = ? AND b.applied = 1 ORDER BY b.created_at DESC, b.id DESC LIMIT 1`

func (tx chatTx) LatestBinding(ctx context.Context, threadID string) (b gateway.BindingRow, hostID string, err error) {
	b, err = one("read latest binding", tx.QueryRow(ctx, latestBinding, threadID), func(r rowScanner) (b gateway.BindingRow, err error) {
		var applied int
		err = r.Scan(&b.ID, &b.RunID, &b.ModelProvider, &b.ModelProviderID, &b.Model, &b.VirtualThreadID,
			&b.ContinueFrom, &applied, &b.CreatedAt, &hostID)
		b.Applied = applied != 0
		return b, err
	})
	return b, hostID, err
}

func (tx chatTx) MarkApplied(ctx context.Context, bindingID string) error {
	return tx.exec(ctx, "mark binding", `UPDATE bindings SET applied = 1 WHERE id = ?`, bindingID)
}

const commandQuery = `SELECT run_id, seq, turn_id, kind, body, state, error, created_at FROM commands`

func scanCommand(r rowScanner) (c gateway.CommandRow, err error) {
	var body string
	err = r.Scan(&c.RunID, &c.Seq, &c.TurnID, &c.Kind, &body, &c.State, &c.Error, &c.CreatedAt)
	c.Body = json.RawMessage(body)
	return c, err
}

func (tx chatTx) AppendCommand(ctx context.Context, c gateway.CommandRow) (uint64, error) {
	seq, err := one("number command", tx.QueryRow(ctx, `
		UPDATE runs SET command_seq = command_seq + 1 WHERE id = ? RETURNING command_seq`, c.RunID), scanInt)
	if err != nil {
		return 0, err
	}
	state := c.State
	if state == "" {
		state = gateway.CommandPending
	}
	return uint64(seq), tx.exec(ctx, "append command", `
		INSERT INTO commands (run_id, seq, turn_id, kind, body, state, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		c.RunID, seq, c.TurnID, c.Kind, string(c.Body), state, c.CreatedAt)
}

func (tx chatTx) Command(ctx context.Context, runID string, seq uint64) (gateway.CommandRow, error) {
	return one("read command", tx.QueryRow(ctx, commandQuery+` WHERE run_id = ? AND seq = ?`, runID, seq), scanCommand)
}

func (tx chatTx) OpenCommands(ctx context.Context, runID string) ([]gateway.CommandRow, error) {
	return many(ctx, tx, "list open commands", scanCommand,
		commandQuery+` WHERE run_id = ? AND state IN ('pending', 'sent') ORDER BY seq`, runID)
}

func (tx chatTx) TurnCommands(ctx context.Context, turnID string) ([]gateway.CommandRow, error) {
	return many(ctx, tx, "list commands of turn", scanCommand, commandQuery+` WHERE turn_id = ? ORDER BY seq`, turnID)
}

func (tx chatTx) SetCommand(ctx context.Context, runID string, seq uint64, state gateway.CommandState, code wire.Code) error {
	return tx.exec(ctx, "set command", `
		UPDATE commands SET state = ?, error = ?, body = CASE WHEN ? = 1 THEN body ELSE '' END
		WHERE run_id = ? AND seq = ?`, state, code, flag(state.Open()), runID, seq)
}
