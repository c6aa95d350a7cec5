package gatewaysql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

const orgColumns = `o.id, o.name, o.created_at`

func scanOrg(row scanner) (gateway.Org, error) {
	var org gateway.Org
	var created int64
	err := row.Scan(&org.ID, &org.Name, &created)
	org.CreatedAt = fromMillis(created)
	return org, err
}

// Org finds an org.
func (s *Accounts) Org(ctx context.Context, id string) (gateway.Org, error) {
	return s.oneOrg(ctx, `SELECT `+orgColumns+` FROM orgs o WHERE o.id = ?`, id)
}

// OrgByName finds an org by its whole name.
func (s *Accounts) OrgByName(ctx context.Context, name string) (gateway.Org, error) {
	return s.oneOrg(ctx, `SELECT `+orgColumns+` FROM orgs o WHERE o.name = ?`, name)
}

func (s *Accounts) oneOrg(ctx context.Context, query, arg string) (org gateway.Org, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) (err error) {
		org, err = scanOrg(tx.QueryRow(ctx, query, arg))
		return missing(err, "org")
	})
	return org, err
}

// Orgs lists all orgs, oldest first.
func (s *Accounts) Orgs(ctx context.Context) ([]gateway.Org, error) {
	var list []gateway.Org
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+orgColumns+` FROM orgs o ORDER BY o.created_at, o.id`)
		if err != nil {
			return err
		}
		list, err = collect(rows, scanOrg)
		return err
	})
	return list, err
}

// CreateOrg stores an org with its entitlement and limits; a name in use is
// gateway.ErrOrgTaken. See accounts.Store.
func (s *Accounts) CreateOrg(ctx context.Context, org gateway.Org, audit gateway.AuditEntry) error {
	err := s.db.Update(ctx, func(tx *sqldb.Tx) error {
		if err := insertOrg(ctx, tx, org); err != nil {
			return err
		}
		return insertAudit(ctx, tx, audit)
	})
	if sqldb.IsUnique(err) {
		return gateway.ErrOrgTaken
	}
	return err
}

// joinOrg gives the id of the org named wanted, or of the first one for "". Where
// no org exists it creates fresh, once.
func joinOrg(ctx context.Context, tx *sqldb.Tx, wanted string, fresh gateway.Org) (id string, err error) {
	if err := lockInstallation(ctx, tx); err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, `SELECT id FROM orgs WHERE ? = '' OR name = ? ORDER BY created_at, id LIMIT 1`,
		wanted, wanted).Scan(&id)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	var orgs int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM orgs`).Scan(&orgs); err != nil {
		return "", err
	}
	if orgs > 0 {
		return "", wire.NewError(wire.CodeNotFound, "There is no such org.")
	}
	return fresh.ID, insertOrg(ctx, tx, fresh)
}

func insertOrg(ctx context.Context, tx *sqldb.Tx, org gateway.Org) error {
	if _, err := tx.Exec(ctx, `INSERT INTO orgs (id, name, created_at) VALUES (?, ?, ?)`,
		org.ID, org.Name, toMillis(org.CreatedAt)); err != nil {
		return err
	}
	for _, query := range []string{
		`INSERT INTO entitlements (org_id, status, updated_at) VALUES (?, 'active', ?)`,
		`INSERT INTO org_limits (org_id, updated_at) VALUES (?, ?)`,
	} {
		if _, err := tx.Exec(ctx, query, org.ID, toMillis(org.CreatedAt)); err != nil {
			return err
		}
	}
	return nil
}

// Entitlement gives what an org may spend.
func (s *Accounts) Entitlement(ctx context.Context, orgID string) (e gateway.Entitlement, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		var credits sql.NullInt64
		err := tx.QueryRow(ctx, `SELECT status, credits FROM entitlements WHERE org_id = ?`, orgID).Scan(&e.Status, &credits)
		if credits.Valid {
			e.Credits = &credits.Int64
		}
		return missing(err, "org")
	})
	return e, err
}

// SetEntitlement replaces it.
func (s *Accounts) SetEntitlement(ctx context.Context, orgID string, e gateway.Entitlement, audit gateway.AuditEntry) error {
	return s.change(ctx, "org", audit, `UPDATE entitlements SET status = ?, credits = ?, updated_at = ? WHERE org_id = ?`,
		e.Status, e.Credits, toMillis(audit.At), orgID)
}

// OrgLimits gives the limits of an org and its members.
func (s *Accounts) OrgLimits(ctx context.Context, orgID string) (l gateway.OrgLimits, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		return missing(tx.QueryRow(ctx, `SELECT concurrent_turns, daily_turns, member_concurrent_turns, member_daily_turns
			FROM org_limits WHERE org_id = ?`, orgID).
			Scan(&l.ConcurrentTurns, &l.DailyTurns, &l.Member.ConcurrentTurns, &l.Member.DailyTurns), "org")
	})
	return l, err
}

// SetOrgLimits replaces the limits of the org as a whole.
func (s *Accounts) SetOrgLimits(ctx context.Context, orgID string, l gateway.Limits, audit gateway.AuditEntry) error {
	return s.change(ctx, "org", audit, `UPDATE org_limits SET concurrent_turns = ?, daily_turns = ?, updated_at = ? WHERE org_id = ?`,
		l.ConcurrentTurns, l.DailyTurns, toMillis(audit.At), orgID)
}

// SetMemberDefaults replaces the limits of members who have none of their own.
func (s *Accounts) SetMemberDefaults(ctx context.Context, orgID string, l gateway.Limits, audit gateway.AuditEntry) error {
	return s.change(ctx, "org", audit, `UPDATE org_limits SET member_concurrent_turns = ?, member_daily_turns = ?, updated_at = ? WHERE org_id = ?`,
		l.ConcurrentTurns, l.DailyTurns, toMillis(audit.At), orgID)
}

// change runs one statement that must change a row, with its audit entry.
func (s *Accounts) change(ctx context.Context, what string, audit gateway.AuditEntry, query string, args ...any) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		if err := affectsOne(tx.Exec(ctx, query, args...)); err != nil {
			return missing(err, what)
		}
		return insertAudit(ctx, tx, audit)
	})
}

// Standing gives what admission would see of an account now, and how much of it
// is used; turns started since the moment.
func (s *Accounts) Standing(ctx context.Context, orgID, accountID string, since time.Time) (a gateway.Admission, l gateway.Load, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		var err error
		if a, err = (chatTx{tx}).Admission(ctx, orgID, accountID); err != nil {
			return err
		}
		l, err = chatTx{tx}.Load(ctx, orgID, accountID, toMillis(since))
		return err
	})
	return a, l, err
}
