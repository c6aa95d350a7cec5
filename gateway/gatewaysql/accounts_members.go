package gatewaysql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

func scanMember(row scanner) (gateway.Member, error) {
	var m gateway.Member
	var created, disabled int64
	var concurrent, daily sql.NullInt64
	err := row.Scan(&m.ID, &m.OrgID, &m.Email, &m.Name, &m.Role, &created, &disabled, &concurrent, &daily)
	m.CreatedAt, m.DisabledAt = fromMillis(created), fromMillis(disabled)
	if concurrent.Valid {
		m.Limits = &gateway.Limits{ConcurrentTurns: int(concurrent.Int64), DailyTurns: int(daily.Int64)}
	}
	return m, err
}

// Members lists an org, or all for "", oldest first, with the limits that are a
// member's own.
func (s *Accounts) Members(ctx context.Context, orgID string) ([]gateway.Member, error) {
	var list []gateway.Member
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT a.id, a.org_id, a.email, a.name, a.role, a.created_at, a.disabled_at, m.concurrent_turns, m.daily_turns
			FROM accounts a LEFT JOIN member_limits m ON m.account_id = a.id
			WHERE ? = '' OR a.org_id = ? ORDER BY a.created_at, a.id`, orgID, orgID)
		if err != nil {
			return err
		}
		list, err = collect(rows, scanMember)
		return err
	})
	return list, err
}

// SetRole changes a role; see accounts.Store.
func (s *Accounts) SetRole(ctx context.Context, orgID, accountID string, role gateway.Role, audit gateway.AuditEntry) ([]string, error) {
	return s.changeMember(ctx, orgID, accountID, audit, func(tx *sqldb.Tx, m gateway.StoredAccount) ([]string, error) {
		if m.Role == role {
			return nil, errUnchanged
		}
		if _, err := tx.Exec(ctx, `UPDATE accounts SET role = ? WHERE id = ?`, role, m.ID); err != nil {
			return nil, err
		}
		if role == gateway.RoleAdmin {
			return nil, nil
		}
		return strip(ctx, tx, m, audit)
	})
}

// DisableMember keeps an account from logging in; see accounts.Store.
func (s *Accounts) DisableMember(ctx context.Context, orgID, accountID string, audit gateway.AuditEntry) ([]string, error) {
	return s.changeMember(ctx, orgID, accountID, audit, func(tx *sqldb.Tx, m gateway.StoredAccount) ([]string, error) {
		if !m.DisabledAt.IsZero() {
			return nil, errUnchanged
		}
		if _, err := tx.Exec(ctx, `UPDATE accounts SET disabled_at = ? WHERE id = ?`, toMillis(audit.At), m.ID); err != nil {
			return nil, err
		}
		return strip(ctx, tx, m, audit)
	})
}

// EnableMember lets a disabled account log in again.
func (s *Accounts) EnableMember(ctx context.Context, orgID, accountID string, audit gateway.AuditEntry) error {
	_, err := s.changeMember(ctx, orgID, accountID, audit, func(tx *sqldb.Tx, m gateway.StoredAccount) ([]string, error) {
		if m.DisabledAt.IsZero() {
			return nil, errUnchanged
		}
		_, err := tx.Exec(ctx, `UPDATE accounts SET disabled_at = 0 WHERE id = ?`, m.ID)
		return nil, err
	})
	return err
}

// SetMemberLimits replaces the limits of a member; nil takes them away.
func (s *Accounts) SetMemberLimits(ctx context.Context, orgID, accountID string, l *gateway.Limits, audit gateway.AuditEntry) (string, error) {
	_, err := s.changeMember(ctx, orgID, accountID, audit, func(tx *sqldb.Tx, m gateway.StoredAccount) ([]string, error) {
		orgID = m.OrgID
		if l == nil {
			_, err := tx.Exec(ctx, `DELETE FROM member_limits WHERE account_id = ?`, m.ID)
			return nil, err
		}
		_, err := tx.Exec(ctx, `INSERT INTO member_limits (account_id, concurrent_turns, daily_turns, updated_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (account_id) DO UPDATE SET concurrent_turns = excluded.concurrent_turns,
				daily_turns = excluded.daily_turns, updated_at = excluded.updated_at`,
			m.ID, l.ConcurrentTurns, l.DailyTurns, toMillis(audit.At))
		return nil, err
	})
	return orgID, err
}

// changeMember runs fn on a member of an org, or of any for "", while the org's
// members are held: of two admins that demote each other one is too late.
func (s *Accounts) changeMember(ctx context.Context, orgID, accountID string, audit gateway.AuditEntry,
	fn func(*sqldb.Tx, gateway.StoredAccount) ([]string, error),
) ([]string, error) {
	var ended []string
	err := s.db.Update(ctx, func(tx *sqldb.Tx) error {
		var org string
		if err := tx.QueryRow(ctx, `SELECT org_id FROM accounts WHERE id = ?`, accountID).Scan(&org); err != nil {
			return missing(err, "member")
		}
		if err := holdOrg(ctx, tx, org); err != nil {
			return err
		}
		m, err := scanAccount(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM accounts a
			WHERE a.id = ? AND (? = '' OR a.org_id = ?)`, accountID, orgID, orgID))
		if err != nil {
			return missing(err, "member")
		}
		if ended, err = fn(tx, m); err != nil {
			return err
		}
		audit.OrgID = m.OrgID
		return insertAudit(ctx, tx, audit)
	})
	if errors.Is(err, errUnchanged) {
		return nil, nil
	}
	return ended, err
}

// errUnchanged tells changeMember that a member is already as it was to become.
var errUnchanged = errors.New("member is unchanged")

// strip takes from a member that was changed what it held as it was before: its
// sessions and tokens, and the invitations that it gave out. It refuses to leave
// an org that had an admin without one who can log in.
func strip(ctx context.Context, tx *sqldb.Tx, before gateway.StoredAccount, audit gateway.AuditEntry) ([]string, error) {
	if before.Role == gateway.RoleAdmin && before.DisabledAt.IsZero() {
		var admins int
		err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM accounts WHERE org_id = ? AND role = 'admin' AND disabled_at = 0`,
			before.OrgID).Scan(&admins)
		if err != nil {
			return nil, err
		}
		if admins == 0 {
			return nil, wire.NewError(gateway.CodeLastAdmin, "This is the last admin of the org. Make another member an admin first.")
		}
	}
	_, err := tx.Exec(ctx, `UPDATE invitations SET revoked_at = ? WHERE created_by = ? AND accepted_at = 0 AND revoked_at = 0`,
		toMillis(audit.At), before.ID)
	if err != nil {
		return nil, err
	}
	return endCredentials(ctx, tx, before.ID, "", audit.At)
}
