package gatewaysql

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
)

func insertAudit(ctx context.Context, tx *sqldb.Tx, e gateway.AuditEntry) error {
	_, err := tx.Exec(ctx, `INSERT INTO audit (id, at, org_id, account_id, action, target, address, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, toMillis(e.At), e.OrgID, e.AccountID, e.Action, e.Target, e.Address, e.Detail)
	return err
}

// AppendAudit stores one entry.
func (s *Accounts) AppendAudit(ctx context.Context, entry gateway.AuditEntry) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error { return insertAudit(ctx, tx, entry) })
}

// Audit lists the newest entries of an org and of no org, older than before if
// that is not "". An orgID of "" lists all.
func (s *Accounts) Audit(ctx context.Context, orgID, before string, limit int) ([]gateway.AuditEntry, error) {
	var list []gateway.AuditEntry
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, at, org_id, account_id, action, target, address, detail FROM audit
			WHERE (? = '' OR org_id = ? OR org_id = '') AND (? = '' OR id < ?)
			ORDER BY id DESC LIMIT ?`, orgID, orgID, before, before, limit)
		if err != nil {
			return err
		}
		list, err = collect(rows, scanAudit)
		return err
	})
	return list, err
}

func scanAudit(row scanner) (gateway.AuditEntry, error) {
	var e gateway.AuditEntry
	var at int64
	err := row.Scan(&e.ID, &at, &e.OrgID, &e.AccountID, &e.Action, &e.Target, &e.Address, &e.Detail)
	e.At = fromMillis(at)
	return e, err
}
