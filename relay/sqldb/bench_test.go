package sqldb_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/relay/sqldb"
)

const rowBytes = 200

// BenchmarkAppend appends rows of 200 bytes durably and reports, from the same
// run, the ratio to the floor: a plain file with group commit and fdatasync.
// Slices of both alternate, so that a busy disk hits both.
func BenchmarkAppend(b *testing.B) {
	for _, producers := range []int{1, 64} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			db := openAt(b, newPath(b), "sqlite3")
			raw := newRawLog(b)
			body := strings.Repeat("x", rowBytes)
			var turn atomic.Int64
			appendRow := func(n int) error {
				return db.Update(context.Background(), func(tx *sqldb.Tx) error {
					_, err := tx.Exec(context.Background(),
						"INSERT INTO rows (producer, n, body) VALUES (?, ?, ?)", turn.Load(), n, body)
					return err
				})
			}
			var sqlTime, rawTime time.Duration
			for done := 0; done < b.N; {
				slice := min(b.N-done, 100*producers)
				turn.Add(1)
				sqlTime += spread(b, producers, slice, appendRow)
				rawTime += spread(b, producers, slice, func(int) error { return raw.append(body) })
				done += slice
			}
			b.ReportMetric(float64(b.N)/sqlTime.Seconds(), "rows/s")
			b.ReportMetric(float64(b.N)/rawTime.Seconds(), "raw-rows/s")
			b.ReportMetric(rawTime.Seconds()/sqlTime.Seconds(), "ratio-to-raw")
		})
	}
}

// spread runs n calls on a number of goroutines and gives the time they took.
func spread(b *testing.B, producers, n int, call func(int) error) time.Duration {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range producers {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// rawLog is the floor: an append file whose writer syncs once for all that
// arrived during the sync before.
type rawLog struct {
	queue chan rawAppend
}

type rawAppend struct {
	row  string
	done chan error
}

func newRawLog(b *testing.B) *rawLog {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "raw.log"))
	if err != nil {
		b.Fatal(err)
	}
	l := &rawLog{queue: make(chan rawAppend, 512)}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		var buf []byte
		for first := range l.queue {
			batch := []rawAppend{first}
			for more := true; more && len(batch) < cap(l.queue); {
				select {
				case r, ok := <-l.queue:
					if more = ok; ok {
						batch = append(batch, r)
					}
				default:
					more = false
				}
			}
			buf = buf[:0]
			for _, r := range batch {
				buf = append(append(buf, r.row...), '\n')
			}
			_, err := f.Write(buf)
			if err == nil {
				err = unix.Fdatasync(int(f.Fd()))
			}
			for _, r := range batch {
				r.done <- err
			}
		}
	}()
	b.Cleanup(func() {
		close(l.queue)
		<-stopped
		_ = f.Close()
	})
	return l
}

func (l *rawLog) append(row string) error {
	r := rawAppend{row: row, done: make(chan error, 1)}
	l.queue <- r
	return <-r.done
}
