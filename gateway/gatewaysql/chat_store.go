package gatewaysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// ChatStore is the part of the store that the chat works on.
type ChatStore struct {
	db *sqldb.DB
}

var _ gateway.ChatStore = ChatStore{}

// Chat gives the chat's part of the store.
func (s *Store) Chat() ChatStore { return ChatStore{db: s.db} }

// Update runs fn in one durable transaction; see gateway.ChatStore.
func (s ChatStore) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	return storeError(s.db.Update(ctx, func(tx *sqldb.Tx) error { return fn(chatTx{tx}) }))
}

// View runs fn on one snapshot; see gateway.ChatStore.
func (s ChatStore) View(ctx context.Context, fn func(gateway.ChatTx) error) error {
	return storeError(s.db.View(ctx, func(tx *sqldb.Tx) error { return fn(chatTx{tx}) }))
}

// storeError gives failures of the database the code that callers may show, and
// leaves errors with a meaning of their own as they are.
func storeError(err error) error {
	var coded *wire.Error
	switch {
	case err == nil, errors.As(err, &coded), errors.Is(err, gateway.ErrNoRow), errors.Is(err, gateway.ErrRowExists),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, sqldb.ErrIndeterminate):
		return wire.WrapError(wire.CodeStorageUnavailable,
			"The store did not tell whether this was kept. Try again: what was kept is not done a second time.", err)
	}
	return wire.WrapError(wire.CodeStorageUnavailable, "The store is not available. Nothing was changed; try again.", err)
}

// chatTx is one transaction. It keeps nothing beside it.
type chatTx struct{ *sqldb.Tx }

// exec runs a statement and tells what it was for if it fails.
func (tx chatTx) exec(ctx context.Context, what, query string, args ...any) error {
	if _, err := tx.Exec(ctx, query, args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// insert runs an INSERT … ON CONFLICT DO NOTHING and gives ErrRowExists if it
// did nothing: a failed statement would spoil the transaction on other databases.
func (tx chatTx) insert(ctx context.Context, what, query string, args ...any) error {
	n, err := tx.affected(ctx, what, query, args...)
	if err == nil && n == 0 {
		return fmt.Errorf("%s: %w", what, gateway.ErrRowExists)
	}
	return err
}

func (tx chatTx) affected(ctx context.Context, what, query string, args ...any) (int64, error) {
	res, err := tx.Exec(ctx, query, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return n, nil
}

// rowScanner is a row of QueryRow or of Query.
type rowScanner interface{ Scan(dest ...any) error }

// one reads the row of a query that has at most one.
func one[T any](what string, row rowScanner, scan func(rowScanner) (T, error)) (T, error) {
	v, err := scan(row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return v, fmt.Errorf("%s: %w", what, gateway.ErrNoRow)
	case err != nil:
		return v, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}

// many reads all rows of a query.
func many[T any](ctx context.Context, tx chatTx, what string, scan func(rowScanner) (T, error), query string, args ...any) (list []T, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return list, nil
}

func scanText(r rowScanner) (s string, err error) { return s, r.Scan(&s) }
func scanInt(r rowScanner) (n int64, err error)   { return n, r.Scan(&n) }

// optional stores 0 as NULL.
func optional(ms int64) any {
	if ms == 0 {
		return nil
	}
	return ms
}

// optionalText stores "" as NULL.
func optionalText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// flag stores a truth as 0 or 1, which every dialect compares alike.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
