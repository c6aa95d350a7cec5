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

const invitationColumns = `i.id, i.org_id, i.email, i.role, i.secret_hash, i.created_by, i.created_at, i.expires_at`

func scanInvitation(row scanner) (gateway.Invitation, error) {
	var inv gateway.Invitation
	var created, expires int64
	err := row.Scan(&inv.ID, &inv.OrgID, &inv.Email, &inv.Role, &inv.SecretHash, &inv.CreatedBy, &created, &expires)
	inv.CreatedAt, inv.ExpiresAt = fromMillis(created), fromMillis(expires)
	return inv, err
}

// PutInvitation stores an invitation in place of those that stand for the same
// email in the org; see accounts.Store.
func (s *Accounts) PutInvitation(ctx context.Context, inv gateway.Invitation, wanted string, fresh gateway.Org, audit gateway.AuditEntry) (gateway.Invitation, error) {
	named := inv.OrgID
	err := s.db.Update(ctx, func(tx *sqldb.Tx) (err error) {
		if inv.OrgID = named; named == "" {
			if inv.OrgID, err = joinOrg(ctx, tx, wanted, fresh); err != nil {
				return err
			}
		}
		if err := holdOrg(ctx, tx, inv.OrgID); err != nil {
			return err
		}
		if err := emailIsFree(ctx, tx, inv.Email); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE invitations SET revoked_at = ?
			WHERE org_id = ? AND email = ? AND accepted_at = 0 AND revoked_at = 0`,
			toMillis(inv.CreatedAt), inv.OrgID, inv.Email); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO invitations
			(id, org_id, email, role, secret_hash, created_by, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			inv.ID, inv.OrgID, inv.Email, inv.Role, inv.SecretHash, inv.CreatedBy,
			toMillis(inv.CreatedAt), toMillis(inv.ExpiresAt)); err != nil {
			return err
		}
		audit.OrgID = inv.OrgID
		return insertAudit(ctx, tx, audit)
	})
	return inv, err
}

func emailIsFree(ctx context.Context, tx *sqldb.Tx, email string) error {
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM accounts WHERE email = ?`, email).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return gateway.ErrEmailTaken
	}
	return nil
}

// Invitations lists those of an org, or all for "", that were neither used nor
// revoked, newest first; also those that expired.
func (s *Accounts) Invitations(ctx context.Context, orgID string) ([]gateway.Invitation, error) {
	var list []gateway.Invitation
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+invitationColumns+` FROM invitations i
			WHERE i.accepted_at = 0 AND i.revoked_at = 0 AND (? = '' OR i.org_id = ?)
			ORDER BY i.created_at DESC, i.id DESC`, orgID, orgID)
		if err != nil {
			return err
		}
		list, err = collect(rows, scanInvitation)
		return err
	})
	return list, err
}

// InvitationBySecret finds an invitation that can be used at a moment; any other
// is not_found.
func (s *Accounts) InvitationBySecret(ctx context.Context, secretHash string, now time.Time) (inv gateway.Invitation, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) (err error) {
		inv, err = scanInvitation(tx.QueryRow(ctx, `SELECT `+invitationColumns+` FROM invitations i
			WHERE i.secret_hash = ? AND i.accepted_at = 0 AND i.revoked_at = 0 AND i.expires_at > ?`,
			secretHash, toMillis(now)))
		return missing(err, "invitation")
	})
	return inv, err
}

// RevokeInvitation ends an invitation of an org, or any for "".
func (s *Accounts) RevokeInvitation(ctx context.Context, orgID, id string, audit gateway.AuditEntry) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		err := tx.QueryRow(ctx, `UPDATE invitations SET revoked_at = ?
			WHERE id = ? AND accepted_at = 0 AND revoked_at = 0 AND (? = '' OR org_id = ?) RETURNING org_id`,
			toMillis(audit.At), id, orgID, orgID).Scan(&audit.OrgID)
		if err != nil {
			return missing(err, "invitation")
		}
		return insertAudit(ctx, tx, audit)
	})
}

// AcceptInvitation uses up an invitation and creates its account, which takes
// email, org and role from it. The write to its row decides who of two callers
// wins; where the account cannot be made, it stands as before.
func (s *Accounts) AcceptInvitation(ctx context.Context, secretHash string, acc gateway.StoredAccount, audit gateway.AuditEntry) (gateway.Account, error) {
	err := s.db.Update(ctx, func(tx *sqldb.Tx) error {
		row := tx.QueryRow(ctx, `UPDATE invitations SET accepted_at = ?, accepted_by = ?
			WHERE secret_hash = ? AND accepted_at = 0 AND revoked_at = 0 AND expires_at > ?
			RETURNING id, org_id, email, role`,
			toMillis(audit.At), acc.ID, secretHash, toMillis(audit.At))
		err := row.Scan(&audit.Target, &acc.OrgID, &acc.Email, &acc.Role)
		if errors.Is(err, sql.ErrNoRows) {
			return wire.NewError(gateway.CodeInvitationInvalid, "This invitation is not valid any more.")
		}
		if err != nil {
			return err
		}
		if err := insertAccount(ctx, tx, acc); err != nil {
			return err
		}
		audit.OrgID = acc.OrgID
		return insertAudit(ctx, tx, audit)
	})
	return acc.Account, err
}
