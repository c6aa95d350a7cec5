package gatewaysql

import (
	"context"
	"errors"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
)

// Keys of sqldb.Tx.Sequence: one for each row whose lock orders what is published.
func orgKey(id string) string     { return "org:" + id }
func threadKey(id string) string  { return "thread:" + id }
func accountKey(id string) string { return "account:" + id }

// LockOrg takes the org admission lock.
func (tx chatTx) LockOrg(ctx context.Context, orgID string) error {
	return tx.lock(ctx, "lock org", `SELECT 1 FROM orgs WHERE id = ?`, orgID, orgKey(orgID))
}

// LockThread takes the lock of a thread.
func (tx chatTx) LockThread(ctx context.Context, threadID string) error {
	return tx.lock(ctx, "lock thread", `SELECT 1 FROM threads WHERE id = ?`, threadID, threadKey(threadID))
}

// LockTurn takes the turn lifecycle lock.
func (tx chatTx) LockTurn(ctx context.Context, turnID string) error {
	return tx.lock(ctx, "lock turn", `SELECT 1 FROM turns WHERE id = ?`, turnID, "")
}

// LockQueueRow takes the lock of a waiting message.
func (tx chatTx) LockQueueRow(ctx context.Context, eventID string) error {
	return tx.lock(ctx, "lock waiting message", `SELECT 1 FROM queue WHERE event_id = ?`, eventID, "")
}

// lock takes a row lock that leaves references to the row free, and a place in the
// line of key. A row that is not there is not locked, which is no error: whoever
// reads it afterwards finds that it is missing. SQLite's single writer needs none.
func (tx chatTx) lock(ctx context.Context, what, query, id, key string) error {
	if tx.Dialect() != sqldb.Postgres {
		return nil
	}
	_, err := one(what, tx.QueryRow(ctx, query+` FOR NO KEY UPDATE`, id), scanInt)
	if errors.Is(err, gateway.ErrNoRow) {
		return nil
	}
	if err == nil && key != "" {
		tx.Sequence(key)
	}
	return err
}

// installationLock names the lock of lockInstallation.
const installationLock = 0x666c696e

// lockInstallation holds what there is once in an installation: the first org, the
// setup link. It is to be taken before any row lock.
func lockInstallation(ctx context.Context, tx *sqldb.Tx) error {
	if tx.Dialect() != sqldb.Postgres {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(?, hashtext(current_schema()))`, installationLock)
	return err
}

// holdOrg holds the members and invitations of an org: what is counted of them
// stays so until the end of the transaction.
func holdOrg(ctx context.Context, tx *sqldb.Tx, orgID string) error {
	return chatTx{tx}.LockOrg(ctx, orgID)
}
