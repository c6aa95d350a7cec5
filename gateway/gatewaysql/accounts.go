package gatewaysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// Accounts is the store of package accounts: orgs, accounts, credentials, the
// setup link and the audit log (migration 0001). Every change is one update,
// with its audit row in the same transaction.
type Accounts struct{ db *sqldb.DB }

// Accounts is the part of the store that package accounts needs.
func (s *Store) Accounts() *Accounts { return &Accounts{db: s.db} }

const accountColumns = `a.id, a.org_id, a.email, a.name, a.role, a.password_hash, a.created_at, a.disabled_at`

// scanner is a row of either kind.
type scanner interface{ Scan(dest ...any) error }

func scanAccount(row scanner) (gateway.StoredAccount, error) {
	var acc gateway.StoredAccount
	var created, disabled int64
	err := row.Scan(&acc.ID, &acc.OrgID, &acc.Email, &acc.Name, &acc.Role, &acc.PasswordHash, &created, &disabled)
	acc.CreatedAt, acc.DisabledAt = fromMillis(created), fromMillis(disabled)
	return acc, err
}

// AccountByEmail finds an account by its normalised email.
func (s *Accounts) AccountByEmail(ctx context.Context, email string) (gateway.StoredAccount, error) {
	return s.oneAccount(ctx, `SELECT `+accountColumns+` FROM accounts a WHERE a.email = ?`, email)
}

// AccountByID finds an account in one org, or everywhere for "".
func (s *Accounts) AccountByID(ctx context.Context, orgID, id string) (gateway.StoredAccount, error) {
	return s.oneAccount(ctx,
		`SELECT `+accountColumns+` FROM accounts a WHERE a.id = ? AND (? = '' OR a.org_id = ?)`, id, orgID, orgID)
}

func (s *Accounts) oneAccount(ctx context.Context, query string, args ...any) (gateway.StoredAccount, error) {
	var acc gateway.StoredAccount
	err := s.db.View(ctx, func(tx *sqldb.Tx) (err error) {
		acc, err = scanAccount(tx.QueryRow(ctx, query, args...))
		return missing(err, "account")
	})
	return acc, err
}

// Accounts lists an org, or all for "", oldest first.
func (s *Accounts) Accounts(ctx context.Context, orgID string) ([]gateway.StoredAccount, error) {
	var list []gateway.StoredAccount
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+accountColumns+` FROM accounts a
			WHERE ? = '' OR a.org_id = ? ORDER BY a.created_at, a.id`, orgID, orgID)
		if err != nil {
			return err
		}
		list, err = collect(rows, scanAccount)
		return err
	})
	return list, err
}

// CreateAccount stores an account in the org it names, else in the one named
// wanted, else in the first one; see accounts.Store.
func (s *Accounts) CreateAccount(ctx context.Context, acc gateway.StoredAccount, wanted string, fresh gateway.Org, audit gateway.AuditEntry) (gateway.Account, error) {
	named := acc.OrgID
	err := s.db.Update(ctx, func(tx *sqldb.Tx) (err error) {
		if acc.OrgID = named; named == "" {
			if acc.OrgID, err = joinOrg(ctx, tx, wanted, fresh); err != nil {
				return err
			}
		}
		if err := insertAccount(ctx, tx, acc); err != nil {
			return err
		}
		audit.OrgID = acc.OrgID
		return insertAudit(ctx, tx, audit)
	})
	return acc.Account, err
}

// insertAccount stores an account; an admin voids the setup link.
func insertAccount(ctx context.Context, tx *sqldb.Tx, acc gateway.StoredAccount) error {
	_, err := tx.Exec(ctx, `INSERT INTO accounts (id, org_id, email, name, role, password_hash, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`,
		acc.ID, acc.OrgID, acc.Email, acc.Name, acc.Role, acc.PasswordHash, toMillis(acc.CreatedAt))
	if sqldb.IsUnique(err) {
		return gateway.ErrEmailTaken
	}
	if err != nil || acc.Role != gateway.RoleAdmin {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM setup_links`)
	return err
}

// SetName changes what an account is called.
func (s *Accounts) SetName(ctx context.Context, accountID, name string, audit gateway.AuditEntry) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		err := affectsOne(tx.Exec(ctx, `UPDATE accounts SET name = ? WHERE id = ?`, name, accountID))
		if err != nil {
			return missing(err, "account")
		}
		return insertAudit(ctx, tx, audit)
	})
}

// SetPassword changes a password and ends the account's credentials but keep.
func (s *Accounts) SetPassword(ctx context.Context, accountID, passwordHash, keep string, audit gateway.AuditEntry) ([]string, error) {
	var ended []string
	err := s.db.Update(ctx, func(tx *sqldb.Tx) error {
		err := affectsOne(tx.Exec(ctx, `UPDATE accounts SET password_hash = ? WHERE id = ?`, passwordHash, accountID))
		if err != nil {
			return missing(err, "account")
		}
		if ended, err = endCredentials(ctx, tx, accountID, keep, audit.At); err != nil {
			return err
		}
		return insertAudit(ctx, tx, audit)
	})
	return ended, err
}

// missing turns the absence of a row into not_found.
func missing(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return wire.NewError(wire.CodeNotFound, "There is no such "+what+".")
	}
	return err
}

// affectsOne gives sql.ErrNoRows for a statement that changed nothing.
func affectsOne(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return sql.ErrNoRows
	}
	return err
}

// collect reads all rows and closes them.
func collect[T any](rows *sqldb.Rows, scan func(scanner) (T, error)) ([]T, error) {
	defer rows.Close()
	var list []T
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
		list = append(list, item)
	}
	return list, rows.Err()
}

func scanString(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

// toMillis is the stored form of a moment; the zero time is 0.
func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
