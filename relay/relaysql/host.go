package relaysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// relaySchema is the version of the host's tables, as the relay contract counts it.
const relaySchema = 2

// Host is a relay.Store in a host's database.
type Host struct {
	db *sqldb.DB
}

var _ relay.Store = (*Host)(nil)

// NewHost makes a relay.Store on a database that has been migrated.
func NewHost(db *sqldb.DB) *Host { return &Host{db: db} }

// hostTables are what Verify looks for: without them, or without the unique indexes
// that SQLite makes for them, rows could break the rules.
func hostTables() []string {
	return []string{
		"relay_scopes", "relay_bindings", "relay_turns", "relay_turns_unsettled",
		"relay_runs", "relay_journal", "relay_journal_integrity",
	}
}

// Verify implements relay.Store.
func (h *Host) Verify(ctx context.Context) error {
	err := h.view(ctx, func(tx *sqldb.Tx) error {
		var version int
		if err := tx.QueryRow(ctx, `SELECT version FROM relay_schema WHERE id = 1`).Scan(&version); err != nil {
			return h.untrusted("its version cannot be read", err)
		}
		if version != relaySchema {
			return h.untrusted(fmt.Sprintf("its version is %d, not %d", version, relaySchema), nil)
		}
		for _, name := range hostTables() {
			var found int
			err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM sqlite_schema WHERE name = ?`, name).Scan(&found)
			if err != nil || found != 1 {
				return h.untrusted(name+" is missing", err)
			}
		}
		var enforced int
		if err := tx.QueryRow(ctx, `PRAGMA foreign_keys`).Scan(&enforced); err != nil || enforced != 1 {
			return h.untrusted("foreign keys are not enforced", err)
		}
		return nil
	})
	return err
}

// untrusted is the error of RH3 for the schema. It names the file for the operator.
func (h *Host) untrusted(what string, cause error) error {
	return wire.WrapError(wire.CodeStateUntrusted,
		"The stored relay state cannot be trusted: "+what+". Nothing was changed. Restore the host's folder from a backup, or move its database aside to start empty.",
		errors.Join(fmt.Errorf("relay tables of %s", h.db.Path()), cause))
}

func (h *Host) update(ctx context.Context, fn func(*sqldb.Tx) error) error {
	err := h.db.Update(ctx, fn)
	var refusal *wire.Error
	if errors.Is(err, sqldb.ErrFull) && !errors.As(err, &refusal) {
		return wire.WrapError(wire.CodePersistFailed,
			"The disk of the host is full, so it could not store the change. Once there is room, send the same command again.", h.named(err))
	}
	return h.named(err)
}

func (h *Host) view(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return h.named(h.db.View(ctx, fn))
}

// named says which file an error is of. Refusals are passed on as they are; a file
// that SQLite itself finds damaged is not to be trusted.
func (h *Host) named(err error) error {
	var refusal *wire.Error
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	if damaged(err) {
		return h.untrusted("its file is damaged", err)
	}
	return fmt.Errorf("%s: %w", h.db.Path(), err)
}

// damaged tells whether SQLite could not make sense of the file, by either driver.
func damaged(err error) bool {
	if errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) {
		return true
	}
	var other interface{ Code() int }
	return errors.As(err, &other) && (other.Code()&0xff == int(sqlite3.CORRUPT) || other.Code()&0xff == int(sqlite3.NOTADB))
}

// one reads at most one row.
func one[T any](ctx context.Context, h *Host, scan func(scanner) (T, error), query string, args ...any) (out T, ok bool, err error) {
	err = h.view(ctx, func(tx *sqldb.Tx) error {
		var err error
		out, err = scan(tx.QueryRow(ctx, query, args...))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return out, false, nil
	}
	return out, err == nil, err
}

// many reads all rows of a query inside a transaction.
func many[T any](ctx context.Context, tx *sqldb.Tx, scan func(scanner) (T, error), query string, args ...any) (_ []T, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []T
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// scanner is a row to be read.
type scanner interface{ Scan(dest ...any) error }
