package relaysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/sqldb"
)

// Native is a native.Store in a host's database.
type Native struct {
	db *sqldb.DB
}

var _ native.Store = (*Native)(nil)

// NewNative makes a native.Store on a database that has been migrated.
func NewNative(db *sqldb.DB) *Native { return &Native{db: db} }

// Claim implements native.Store.
func (s *Native) Claim() (release func(), err error) {
	release, err = s.db.Claim("native")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", native.ErrInUse, err)
	}
	return release, nil
}

// Owner implements native.Store.
func (s *Native) Owner(ctx context.Context, proposed string) (owner string, err error) {
	err = s.update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO native_store (id, owner_id, next_seq) VALUES (1, ?, 1)
			ON CONFLICT DO NOTHING`, proposed)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT owner_id FROM native_store WHERE id = 1`).Scan(&owner)
	})
	return owner, err
}

// update runs fn in a transaction and translates what a commit may answer.
func (s *Native) update(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return s.translate(s.db.Update(ctx, fn))
}

func (s *Native) view(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return s.translate(s.db.View(ctx, fn))
}

func (s *Native) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqldb.ErrIndeterminate):
		return fmt.Errorf("%w: %w", native.ErrIndeterminate, err)
	case errors.Is(err, sqldb.ErrClosed):
		return fmt.Errorf("%w: %w", native.ErrStoreClosed, err)
	case errors.Is(err, sql.ErrNoRows):
		return native.ErrNotFound
	case isDomain(err):
		return err
	}
	return fmt.Errorf("%s: %w", s.db.Path(), err)
}

// isDomain tells the answers of native.Store from failures of the database.
func isDomain(err error) bool {
	for _, known := range []error{
		native.ErrNotFound, native.ErrActive, native.ErrTurnExists, native.ErrOwnsTurns, native.ErrOver, native.ErrTaken,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// corrupt is the error for a stored record that breaks its own rules.
func corrupt(what string) error {
	return fmt.Errorf("%s is damaged; nothing was changed: restore the file from a backup, or move it aside to start empty", what)
}

// nextSeq gives out n sequence numbers and returns the first.
func nextSeq(ctx context.Context, tx *sqldb.Tx, n int) (first int64, err error) {
	err = tx.QueryRow(ctx, `UPDATE native_store SET next_seq = next_seq + ? WHERE id = 1
		RETURNING next_seq`, n).Scan(&first)
	return first - int64(n), err
}

func insertEvent(ctx context.Context, tx *sqldb.Tx, seq int64, threadID string, turnID, itemID any, e native.Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO native_events (seq, thread_id, turn_id, item_id, event, at, payload)
		VALUES (?, ?, ?, ?, ?, ?, ?)`,
		seq, threadID, turnID, itemID, e.Name, millis(e.At), string(e.Payload))
	return err
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
