package sqldb_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/sqldb/pgtest"
)

// BenchmarkPostgres appends rows of 200 bytes, one transaction each, and reports
// the ratio to bare pgx with as many connections in the same run. The server does
// not sync: what is measured is what this package adds.
func BenchmarkPostgres(b *testing.B) {
	for _, producers := range []int{1, 16} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			place := pgtest.URL(b)
			db := openAt(b, place, postgres)
			config, err := pgxpool.ParseConfig(place)
			if err != nil {
				b.Fatal(err)
			}
			config.MaxConns = 16
			bare, err := pgxpool.NewWithConfig(b.Context(), config)
			if err != nil {
				b.Fatal(err)
			}
			defer bare.Close()
			ctx, body := context.Background(), strings.Repeat("x", rowBytes)
			var turn atomic.Int64
			ours := func(n int) error {
				return db.Update(ctx, func(tx *sqldb.Tx) error {
					_, err := tx.Exec(ctx, "INSERT INTO rows (producer, n, body) VALUES (?, ?, ?)", turn.Load(), n, body)
					return err
				})
			}
			theirs := func(n int) error {
				return pgx.BeginFunc(ctx, bare, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "INSERT INTO rows (producer, n, body) VALUES ($1, $2, $3)", -turn.Load(), n, body)
					return err
				})
			}
			var ourTime, bareTime time.Duration
			for done := 0; done < b.N; {
				slice := min(b.N-done, 100*producers)
				turn.Add(1)
				ourTime += spread(b, producers, slice, ours)
				bareTime += spread(b, producers, slice, theirs)
				done += slice
			}
			b.ReportMetric(float64(b.N)/ourTime.Seconds(), "rows/s")
			b.ReportMetric(float64(b.N)/bareTime.Seconds(), "pgx-rows/s")
			b.ReportMetric(bareTime.Seconds()/ourTime.Seconds(), "ratio-to-pgx")
		})
	}
}
