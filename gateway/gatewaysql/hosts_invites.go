package gatewaysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
)

const hostInviteColumns = `id, secret_hash, name, labels, org_id, created_by, created_at, expires_at, used_at, host_id`

func scanHostInvite(row rowScanner) (gateway.HostInvite, error) {
	var i gateway.HostInvite
	var labels string
	var created, expires, used int64
	err := row.Scan(&i.ID, &i.SecretHash, &i.Name, &labels, &i.OrgID, &i.CreatedBy, &created, &expires, &used, &i.HostID)
	i.Labels = strings.Fields(labels)
	i.CreatedAt, i.ExpiresAt, i.UsedAt = fromMillis(created), fromMillis(expires), fromMillis(used)
	return i, err
}

// CreateHostInvite stores an invitation.
func (s Hosts) CreateHostInvite(ctx context.Context, i gateway.HostInvite, a gateway.AuditEntry) error {
	return s.update(ctx, func(tx chatTx) error {
		if err := tx.exec(ctx, "invite a host", `INSERT INTO host_invites
			(id, secret_hash, name, labels, org_id, created_by, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			i.ID, i.SecretHash, i.Name, strings.Join(i.Labels, " "), i.OrgID, i.CreatedBy,
			toMillis(i.CreatedAt), toMillis(i.ExpiresAt)); err != nil {
			return err
		}
		return insertAudit(ctx, tx.Tx, a)
	})
}

// HostInvites lists the invitations that can be used at a moment, newest first.
func (s Hosts) HostInvites(ctx context.Context, now time.Time) (list []gateway.HostInvite, err error) {
	err = s.view(ctx, func(tx chatTx) error {
		rows, err := tx.Query(ctx, `SELECT `+hostInviteColumns+` FROM host_invites
			WHERE used_at = 0 AND revoked_at = 0 AND expires_at > ? ORDER BY created_at DESC, id DESC`, toMillis(now))
		if err != nil {
			return err
		}
		list, err = collect(rows, func(row scanner) (gateway.HostInvite, error) { return scanHostInvite(row) })
		return err
	})
	return list, err
}

// RevokeHostInvite ends an invitation that could be used.
func (s Hosts) RevokeHostInvite(ctx context.Context, id string, now time.Time, a gateway.AuditEntry) error {
	return s.update(ctx, func(tx chatTx) error {
		n, err := tx.affected(ctx, "revoke invitation of a host", `UPDATE host_invites SET revoked_at = ?
			WHERE id = ? AND used_at = 0 AND revoked_at = 0 AND expires_at > ?`, toMillis(now), id, toMillis(now))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("invitation of a host: %w", gateway.ErrNoRow)
		}
		return insertAudit(ctx, tx.Tx, a)
	})
}

// ForgetHostInvites removes invitations that ended long ago. The token of one that is
// gone is as good as one that never was.
func (s Hosts) ForgetHostInvites(ctx context.Context, endedBefore time.Time) error {
	return s.update(ctx, func(tx chatTx) error {
		return tx.exec(ctx, "forget invitations of hosts", `DELETE FROM host_invites
			WHERE CASE WHEN used_at > 0 THEN used_at WHEN revoked_at > 0 THEN revoked_at ELSE expires_at END < ?
			AND NOT EXISTS (SELECT 1 FROM relay_hosts h
				WHERE h.id = host_invites.host_id AND h.public_key = host_invites.host_key AND h.revoked_at = 0)`,
			toMillis(endedBefore))
	})
}

// spendInvite uses up an invitation for a host; ErrNoRow if it cannot be used.
func spendInvite(ctx context.Context, tx chatTx, secretHash string, h gateway.RelayHost, now time.Time) (gateway.HostInvite, error) {
	return one("spend invitation", tx.QueryRow(ctx, `UPDATE host_invites SET used_at = ?, host_id = ?, host_key = ?
		WHERE secret_hash = ? AND used_at = 0 AND revoked_at = 0 AND expires_at > ? RETURNING `+hostInviteColumns,
		toMillis(now), h.ID, keyText(h.PublicKey), secretHash, toMillis(now)), scanHostInvite)
}
