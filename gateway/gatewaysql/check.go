package gatewaysql

import (
	"context"

	"github.com/fairlead/fairlead/relay/sqldb"
)

// Check tells whether the store takes a durable write. Error: that of the
// database.
func (s *Store) Check(ctx context.Context) error {
	return s.db.Update(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE installation SET epoch = epoch WHERE id = 1`)
		return err
	})
}
