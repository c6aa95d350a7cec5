package gatewaysql

import (
	"context"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
)

const credentialColumns = `c.id, c.kind, c.account_id, c.secret_hash, c.name, c.scopes,
	c.created_at, c.seen_at, c.expires_at, c.ended_at, c.targets`

func scanCredential(row scanner) (gateway.Credential, error) {
	var c gateway.Credential
	err := scanCredentialAnd(row, &c)
	return c, err
}

// scanCredentialAnd scans credentialColumns and whatever columns follow them.
func scanCredentialAnd(row scanner, c *gateway.Credential, more ...any) error {
	var scopes, targets string
	var created, seen, expires, ended int64
	dest := append([]any{
		&c.ID, &c.Kind, &c.AccountID, &c.SecretHash, &c.Name, &scopes, &created, &seen, &expires, &ended, &targets,
	}, more...)
	if err := row.Scan(dest...); err != nil {
		return err
	}
	for _, scope := range strings.Fields(scopes) {
		c.Scopes = append(c.Scopes, gateway.Scope(scope))
	}
	c.Targets = strings.Fields(targets)
	c.CreatedAt, c.SeenAt = fromMillis(created), fromMillis(seen)
	c.ExpiresAt, c.EndedAt = fromMillis(expires), fromMillis(ended)
	return nil
}

// StartCredential stores c and ends the session replaces, if it is not "". The
// credential of an account that is disabled is not_found, also when that happens
// at the same moment: the write below holds the account's row.
func (s *Accounts) StartCredential(ctx context.Context, c gateway.Credential, replaces string, audit gateway.AuditEntry) error {
	scopes := make([]string, len(c.Scopes))
	for i, scope := range c.Scopes {
		scopes[i] = string(scope)
	}
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		err := affectsOne(tx.Exec(ctx, `UPDATE accounts SET disabled_at = 0 WHERE id = ? AND disabled_at = 0`, c.AccountID))
		if err != nil {
			return missing(err, "account")
		}
		_, err = tx.Exec(ctx, `INSERT INTO credentials
			(id, kind, account_id, secret_hash, name, scopes, created_at, seen_at, expires_at, ended_at, targets)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)`,
			c.ID, c.Kind, c.AccountID, c.SecretHash, c.Name, strings.Join(scopes, " "),
			toMillis(c.CreatedAt), toMillis(c.SeenAt), toMillis(c.ExpiresAt), strings.Join(c.Targets, " "))
		if err != nil {
			return err
		}
		if replaces != "" {
			_, err = tx.Exec(ctx, `UPDATE credentials SET ended_at = ? WHERE id = ? AND kind = 'session' AND ended_at = 0`,
				toMillis(c.CreatedAt), replaces)
			if err != nil {
				return err
			}
		}
		return insertAudit(ctx, tx, audit)
	})
}

// CredentialBySecret finds a credential, ended or not, with its account as it is
// now. Those of a disabled account are not found.
func (s *Accounts) CredentialBySecret(ctx context.Context, kind gateway.CredentialKind, secretHash string) (gateway.Credential, gateway.Account, error) {
	var c gateway.Credential
	var acc gateway.Account
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		row := tx.QueryRow(ctx, `SELECT `+credentialColumns+`, a.id, a.org_id, a.email, a.name, a.role
			FROM credentials c JOIN accounts a ON a.id = c.account_id
			WHERE c.secret_hash = ? AND c.kind = ? AND a.disabled_at = 0`, secretHash, kind)
		err := scanCredentialAnd(row, &c, &acc.ID, &acc.OrgID, &acc.Email, &acc.Name, &acc.Role)
		return missing(err, "credential")
	})
	return c, acc, err
}

// Credentials lists those of an org that did not end, or all for "", newest
// first.
func (s *Accounts) Credentials(ctx context.Context, orgID string, kind gateway.CredentialKind) ([]gateway.Credential, error) {
	var list []gateway.Credential
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+credentialColumns+`
			FROM credentials c JOIN accounts a ON a.id = c.account_id
			WHERE c.kind = ? AND c.ended_at = 0 AND (? = '' OR a.org_id = ?)
			ORDER BY c.created_at DESC, c.id DESC`, kind, orgID, orgID)
		if err != nil {
			return err
		}
		list, err = collect(rows, scanCredential)
		return err
	})
	return list, err
}

// AccountCredentials lists those of an account that did not end, newest first.
func (s *Accounts) AccountCredentials(ctx context.Context, accountID string) ([]gateway.Credential, error) {
	var list []gateway.Credential
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+credentialColumns+` FROM credentials c
			WHERE c.account_id = ? AND c.ended_at = 0 ORDER BY c.created_at DESC, c.id DESC`, accountID)
		if err != nil {
			return err
		}
		list, err = collect(rows, scanCredential)
		return err
	})
	return list, err
}

// endCredentials ends all of an account but keep and gives the ids of those ended.
func endCredentials(ctx context.Context, tx *sqldb.Tx, accountID, keep string, at time.Time) ([]string, error) {
	rows, err := tx.Query(ctx, `UPDATE credentials SET ended_at = ?
		WHERE account_id = ? AND id <> ? AND ended_at = 0 RETURNING id`, toMillis(at), accountID, keep)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanString)
}

// TouchCredential stores that a credential was used. Time never runs back.
func (s *Accounts) TouchCredential(ctx context.Context, id string, at time.Time) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE credentials SET seen_at = ? WHERE id = ? AND seen_at < ? AND ended_at = 0`,
			toMillis(at), id, toMillis(at))
		return err
	})
}

// EndCredential ends a credential of an org, or any for "".
func (s *Accounts) EndCredential(ctx context.Context, orgID, id string, audit gateway.AuditEntry) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		err := affectsOne(tx.Exec(ctx, `UPDATE credentials SET ended_at = ? WHERE id = ? AND ended_at = 0
			AND (? = '' OR account_id IN (SELECT id FROM accounts WHERE org_id = ?))`,
			toMillis(audit.At), id, orgID, orgID))
		if err != nil {
			return missing(err, "credential")
		}
		return insertAudit(ctx, tx, audit)
	})
}

// SweepCredentials ends what was idle or expired and forgets what ended long ago.
func (s *Accounts) SweepCredentials(ctx context.Context, now, idleSince, forget time.Time) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE credentials SET ended_at = ? WHERE ended_at = 0
			AND ((expires_at > 0 AND expires_at <= ?) OR (kind = 'session' AND seen_at <= ?))`,
			toMillis(now), toMillis(now), toMillis(idleSince))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM credentials WHERE ended_at > 0 AND ended_at < ?`, toMillis(forget))
		return err
	})
}

// EndedSince lists the credentials that ended at since or later.
func (s *Accounts) EndedSince(ctx context.Context, since time.Time) ([]string, error) {
	var list []string
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id FROM credentials WHERE ended_at >= ? ORDER BY ended_at`,
			max(toMillis(since), 1))
		if err != nil {
			return err
		}
		list, err = collect(rows, scanString)
		return err
	})
	return list, err
}
