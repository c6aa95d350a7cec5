package gatewaysql

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// Epoch gives the epoch of the installation; the first call makes it fresh.
func (s *Accounts) Epoch(ctx context.Context, fresh string) (epoch string, err error) {
	err = s.db.Update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO installation (id, epoch) VALUES (1, ?) ON CONFLICT DO NOTHING`, fresh)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT epoch FROM installation WHERE id = 1`).Scan(&epoch)
	})
	return epoch, err
}

// HasAdmin tells whether any admin exists.
func (s *Accounts) HasAdmin(ctx context.Context) (has bool, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		has, err = hasAdmin(ctx, tx)
		return err
	})
	return has, err
}

func hasAdmin(ctx context.Context, tx *sqldb.Tx) (bool, error) {
	var n int
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM accounts WHERE role = 'admin' LIMIT 1) AS found`).Scan(&n)
	return n > 0, err
}

// PutSetupLink replaces the setup link, unless an admin exists: then false.
func (s *Accounts) PutSetupLink(ctx context.Context, secretHash string, at time.Time) (stored bool, err error) {
	err = s.db.Update(ctx, func(tx *sqldb.Tx) error {
		stored = false
		if err := lockInstallation(ctx, tx); err != nil {
			return err
		}
		has, err := hasAdmin(ctx, tx)
		if err != nil || has {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO setup_links (id, secret_hash, created_at) VALUES (1, ?, ?)
			ON CONFLICT (id) DO UPDATE SET secret_hash = excluded.secret_hash, created_at = excluded.created_at`,
			secretHash, toMillis(at))
		stored = err == nil
		return err
	})
	return stored, err
}

// SetupLinkStands tells whether Setup would take the link.
func (s *Accounts) SetupLinkStands(ctx context.Context, secretHash string) (stands bool, err error) {
	err = s.db.View(ctx, func(tx *sqldb.Tx) error {
		var n int
		err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM setup_links WHERE secret_hash = ?`, secretHash).Scan(&n)
		stands = n > 0
		return err
	})
	return stands, err
}

// Setup uses up the setup link and creates the admin, in the org fresh unless
// one exists. Taking the row away decides who of two callers wins.
func (s *Accounts) Setup(ctx context.Context, secretHash string, fresh gateway.Org, admin gateway.StoredAccount, audit gateway.AuditEntry) (gateway.Account, error) {
	err := s.db.Update(ctx, func(tx *sqldb.Tx) error {
		if err := lockInstallation(ctx, tx); err != nil {
			return err
		}
		if err := takeSetupLink(ctx, tx, secretHash); err != nil {
			return err
		}
		// Members may have been created from the command line before.
		orgID, err := joinOrg(ctx, tx, "", fresh)
		if err != nil {
			return err
		}
		admin.OrgID = orgID
		if err := insertAccount(ctx, tx, admin); err != nil {
			return err
		}
		audit.OrgID = orgID
		return insertAudit(ctx, tx, audit)
	})
	return admin.Account, err
}

func takeSetupLink(ctx context.Context, tx *sqldb.Tx, secretHash string) error {
	res, err := tx.Exec(ctx, `DELETE FROM setup_links WHERE secret_hash = ?`, secretHash)
	if err != nil {
		return err
	}
	taken, err := res.RowsAffected()
	if err != nil {
		return err
	}
	has, err := hasAdmin(ctx, tx)
	if err != nil {
		return err
	}
	if taken != 1 || has {
		return wire.NewError(gateway.CodeSetupLinkInvalid, "This setup link is not valid any more.")
	}
	return nil
}
