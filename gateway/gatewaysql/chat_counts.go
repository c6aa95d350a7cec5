package gatewaysql

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
)

// LiveTurns counts the turns that are not over, by state, over all orgs. It reads
// an index that holds those turns alone.
func (s *Store) LiveTurns(ctx context.Context) (map[gateway.TurnStatus]int, error) {
	counts := map[gateway.TurnStatus]int{gateway.TurnQueued: 0, gateway.TurnPending: 0, gateway.TurnRunning: 0}
	err := s.db.View(ctx, func(tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, `SELECT status, count(*) FROM turns WHERE status IN ('queued', 'pending', 'running') GROUP BY status`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var status gateway.TurnStatus
			var n int
			if err := rows.Scan(&status, &n); err != nil {
				return err
			}
			counts[status] = n
		}
		return rows.Err()
	})
	return counts, err
}
