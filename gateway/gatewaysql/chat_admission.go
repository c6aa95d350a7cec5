package gatewaysql

import (
	"context"
	"database/sql"

	"github.com/fairlead/fairlead/gateway"
)

func scanAdmission(r rowScanner) (a gateway.Admission, err error) {
	var status string
	var credits sql.NullInt64
	err = r.Scan(&status, &credits, &a.OrgTurns, &a.OrgDaily, &a.MemberTurns, &a.MemberDaily, &a.Disabled)
	a.Suspended = status == "suspended"
	if credits.Valid {
		a.Credits = &credits.Int64
	}
	return a, err
}

func (tx chatTx) Admission(ctx context.Context, orgID, accountID string) (gateway.Admission, error) {
	return one("read admission", tx.QueryRow(ctx, `
		SELECT e.status, e.credits, COALESCE(o.concurrent_turns, 0), COALESCE(o.daily_turns, 0),
			COALESCE(m.concurrent_turns, o.member_concurrent_turns, 0), COALESCE(m.daily_turns, o.member_daily_turns, 0),
			EXISTS (SELECT 1 FROM accounts a WHERE a.id = ? AND a.disabled_at <> 0)
		FROM entitlements e
		LEFT JOIN org_limits o ON o.org_id = e.org_id
		LEFT JOIN member_limits m ON m.account_id = ?
		WHERE e.org_id = ?`, accountID, accountID, orgID), scanAdmission)
}

func scanLoad(r rowScanner) (l gateway.Load, err error) {
	return l, r.Scan(&l.OrgActive, &l.MemberActive, &l.OrgQueued, &l.OrgStarted, &l.MemberStarted)
}

// loadQuery counts in indexes that hold what it counts and nothing else.
const loadQuery = `
		SELECT
			(SELECT COUNT(*) FROM turns WHERE org_id = ? AND status IN ('pending', 'running')),
			(SELECT COUNT(*) FROM turns WHERE org_id = ? AND account_id = ? AND status IN ('pending', 'running')),
			(SELECT COUNT(*) FROM turns WHERE org_id = ? AND status = 'queued'),
			(SELECT COUNT(*) FROM turns WHERE org_id = ? AND created_at >= ?),
			(SELECT COUNT(*) FROM turns WHERE account_id = ? AND created_at >= ?)`

func (tx chatTx) Load(ctx context.Context, orgID, accountID string, since int64) (gateway.Load, error) {
	return one("count turns", tx.QueryRow(ctx, loadQuery,
		orgID, orgID, accountID, orgID, orgID, since, accountID, since), scanLoad)
}

// queuedTurns leaves out the contexts: there may be thousands of turns, of tens of
// kilobytes each, and they are read under the lock of their org.
const queuedTurns = turnHead + `''` + turnTail + ` WHERE org_id = ? AND status = 'queued' ORDER BY created_at, id LIMIT ?`

func (tx chatTx) QueuedTurns(ctx context.Context, orgID string, limit int) ([]gateway.TurnRow, error) {
	return many(ctx, tx, "list queued turns", scanTurn, queuedTurns, orgID, limit)
}

const waitingOrgs = `SELECT DISTINCT org_id FROM turns WHERE status = 'queued'`

func (tx chatTx) WaitingOrgs(ctx context.Context) ([]string, error) {
	return many(ctx, tx, "list waiting orgs", scanText, waitingOrgs)
}

func (tx chatTx) Charge(ctx context.Context, rows []gateway.ChargeRow) error {
	spent := map[string]int64{}
	for _, c := range rows {
		n, err := tx.affected(ctx, "book a charge", `
			INSERT INTO charges (id, org_id, account_id, turn_id, provider, model, response_id, category, quantity, credits, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			c.ID, c.OrgID, c.AccountID, c.TurnID, c.Provider, c.Model, c.ResponseID, c.Category, c.Quantity, c.Credits, c.CreatedAt)
		if err != nil {
			return err
		}
		if n == 1 {
			spent[c.OrgID] += c.Credits
		}
	}
	for orgID, credits := range spent {
		if err := tx.exec(ctx, "take credits", `
			UPDATE entitlements SET credits = credits - ? WHERE org_id = ? AND credits IS NOT NULL`, credits, orgID); err != nil {
			return err
		}
	}
	return nil
}

func scanCharge(r rowScanner) (c gateway.ChargeRow, err error) {
	return c, r.Scan(&c.ID, &c.OrgID, &c.AccountID, &c.TurnID, &c.Provider, &c.Model, &c.ResponseID, &c.Category,
		&c.Quantity, &c.Credits, &c.CreatedAt)
}

const chargesQuery = `
	SELECT id, org_id, account_id, turn_id, provider, model, response_id, category, quantity, credits, created_at
	FROM charges WHERE turn_id = ? ORDER BY category, response_id`

func (tx chatTx) Charges(ctx context.Context, turnID string) ([]gateway.ChargeRow, error) {
	return many(ctx, tx, "list charges", scanCharge, chargesQuery, turnID)
}
