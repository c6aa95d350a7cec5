package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
)

// checkpointEvery is how much work, counted in commits and updates, makes the
// writer call for a checkpoint: about a thousand pages or a few. It keeps the log
// far from the size at which a commit itself would have to write it back.
const checkpointEvery = 1000

// States of a request. Who moves it from queued decides: the writer to running,
// or its caller to abandoned.
const (
	stateQueued int32 = iota
	stateRunning
	stateAbandoned
)

// request is one Update on its way through the writer.
type request struct {
	ctx   context.Context
	fn    func(*Tx) error
	state atomic.Int32
	done  chan error // has room for the one answer

	// Owned by the writer.
	tx  Tx
	err error
}

// update queues fn to the writer and waits for its answer.
func (db *sqlite) update(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	r := &request{ctx: ctx, fn: fn, done: make(chan error, 1)}
	if err := db.enqueue(ctx, r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(stateQueued, stateAbandoned) {
			return context.Cause(ctx)
		}
		return <-r.done
	case <-db.stopped:
		if r.state.CompareAndSwap(stateQueued, stateAbandoned) {
			return db.refusal()
		}
		return <-r.done
	}
}

// enqueue holds mu for reading until r has its place, so that Close, which takes
// it for writing, knows that nothing is added behind the writer's last look.
func (db *sqlite) enqueue(ctx context.Context, r *request) error {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed {
		return ErrClosed
	}
	select {
	case db.requests <- r:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-db.stopped:
		return db.refusal()
	}
}

// refusal is why the writer takes no update any more.
func (db *sqlite) refusal() error {
	if cause := db.cause.Load(); cause != nil {
		return *cause
	}
	return ErrClosed
}

// runWriter is the writer goroutine. Only it touches w. It returns after Close,
// with the queue empty.
func (db *sqlite) runWriter(w *conn) {
	batch := make([]*request, 0, maxBatch)
	clean := false
	defer func() {
		if !clean {
			// A function ended this goroutine (runtime.Goexit, as a failing test
			// does): what became of its transaction is nobody's to tell.
			db.fail(fmt.Errorf("%w: an update ended the writer", ErrIndeterminate))
			answer(batch, db.refusal())
		}
		close(db.stopped)
		if err := w.close(); err != nil {
			db.log.Error("closing the database writer failed", slog.Any("error", err))
		}
		db.finished.Done()
	}()
	work := 0
	for db.gather(&batch) {
		if cause := db.cause.Load(); cause != nil {
			answer(batch, *cause)
			continue
		}
		db.commitGroup(w, batch)
		if len(batch) > 1 {
			// Who was answered mostly has another update: let it join the next group.
			runtime.Gosched()
		}
		if work += 1 + len(batch); work >= checkpointEvery {
			work = 0
			select {
			case db.dirty <- struct{}{}:
			default:
			}
		}
	}
	clean = true
}

// gather waits for an update and takes with it whatever else is waiting. It is
// false when the database is closing and the queue is empty.
func (db *sqlite) gather(batch *[]*request) bool {
	clear(*batch)
	*batch = (*batch)[:0]
	for len(*batch) == 0 {
		select {
		case r := <-db.requests:
			take(batch, r)
		case <-db.closing:
			select {
			case r := <-db.requests:
				take(batch, r)
			default:
				return false
			}
		}
	}
	for len(*batch) < maxBatch {
		select {
		case r := <-db.requests:
			take(batch, r)
		default:
			return true
		}
	}
	return true
}

func take(batch *[]*request, r *request) {
	if r.state.CompareAndSwap(stateQueued, stateRunning) {
		*batch = append(*batch, r)
	}
}

// commitGroup runs the functions of a batch in one transaction and answers each.
// Nearly always all of them succeed, so they run without savepoints at first; if
// one does not, all is rolled back and the batch runs again with them.
func (db *sqlite) commitGroup(w *conn, batch []*request) {
	ctx := context.Background()
	stored, err := db.runGroup(ctx, w, batch, runPlain)
	if errors.Is(err, errMember) {
		stored, err = db.runGroup(ctx, w, batch, runApart)
	}
	if err != nil {
		answer(batch, err)
		return
	}
	if stored == 0 {
		if err := w.run(ctx, "ROLLBACK"); err != nil {
			// Nothing was to be kept; begin starts by ending what is left open.
			db.log.Warn("rolling back an update failed", slog.Any("error", err))
		}
		answer(batch, nil)
		return
	}
	if err := w.run(ctx, "COMMIT"); err != nil {
		answer(batch, db.commitFailed(ctx, w, err))
		return
	}
	for _, r := range batch {
		if r.err == nil {
			runHooks(db.log, r.tx.onCommit)
		}
	}
	answer(batch, nil)
}

// runGroup opens a transaction, runs each function in it and counts those whose
// changes are to be stored. After an error the transaction is rolled back, and
// nothing is stored of any.
func (db *sqlite) runGroup(
	ctx context.Context, w *conn, batch []*request, run func(context.Context, *conn, []*request) (int, error),
) (stored int, err error) {
	if err := db.begin(ctx, w); err != nil {
		return 0, fmt.Errorf("sqldb: begin: %w", err)
	}
	stored, err = run(ctx, w, batch)
	if err != nil {
		// SQLite may have ended it by itself, and begin starts by ending what is
		// left open.
		_ = w.run(ctx, "ROLLBACK")
	}
	return stored, err
}

// begin opens the transaction. A transaction that an earlier failure left open is
// ended first.
func (db *sqlite) begin(ctx context.Context, w *conn) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	const begin = "BEGIN IMMEDIATE"
	err := w.run(ctx, begin)
	if err == nil {
		return nil
	}
	if w.run(ctx, "ROLLBACK") != nil {
		return err
	}
	return w.run(ctx, begin)
}

// errMember tells that one function of several failed, and spoiled the transaction
// of all.
var errMember = errors.New("sqldb: an update of a group failed")

// runPlain runs the functions of a batch one after the other.
func runPlain(_ context.Context, w *conn, batch []*request) (stored int, err error) {
	for _, r := range batch {
		r.call(w)
		if r.err == nil {
			stored++
		} else if len(batch) > 1 {
			// It may rest on what others did that is undone now: only the next run's is told.
			r.err = nil
			return 0, errMember
		}
	}
	return stored, nil
}

// runApart runs each function inside a savepoint of its own, which its failure
// undoes. An error means that the transaction is lost as a whole.
func runApart(ctx context.Context, w *conn, batch []*request) (stored int, err error) {
	for _, r := range batch {
		if err := w.run(ctx, "SAVEPOINT member"); err != nil {
			return 0, fmt.Errorf("sqldb: savepoint: %w", err)
		}
		r.call(w)
		if r.err == nil {
			stored++
		} else if err := w.run(ctx, "ROLLBACK TO member"); err != nil {
			return 0, fmt.Errorf("sqldb: another update broke the transaction: %w", err)
		}
		if err := w.run(ctx, "RELEASE member"); err != nil {
			return 0, fmt.Errorf("sqldb: release: %w", err)
		}
	}
	return stored, nil
}

// call runs the function, on a Tx that knows nothing of an earlier run.
func (r *request) call(w *conn) {
	r.tx = Tx{stmts: w, dialect: SQLite, write: true}
	r.err = call(r.fn, &r.tx)
}

// commitFailed tells what a failed COMMIT means and, if nobody can know, breaks
// the database.
func (db *sqlite) commitFailed(ctx context.Context, w *conn, cause error) error {
	rerr := w.run(ctx, "ROLLBACK")
	if notCommitted(cause) {
		// SQLite may have rolled back by itself; then there is nothing to end.
		return fmt.Errorf("sqldb: commit: %w", cause)
	}
	err := fmt.Errorf("%w: %w", ErrIndeterminate, errors.Join(cause, rerr))
	db.fail(err)
	return err
}

func (db *sqlite) fail(err error) {
	if db.cause.CompareAndSwap(nil, &err) {
		close(db.lost)
	}
}

// answer tells every request of a batch how it ended: with its own error if it
// has one, else with err.
func answer(batch []*request, err error) {
	for _, r := range batch {
		if r.err != nil {
			r.done <- r.err
			continue
		}
		r.done <- err
	}
}

// runCheckpointer copies the log back into the database file when the writer
// calls for it, on a connection of its own, so that no commit pays for it. A
// passive checkpoint blocks nobody.
func (db *sqlite) runCheckpointer() {
	defer db.finished.Done()
	for {
		select {
		case <-db.dirty:
		case <-db.stopped:
			return
		}
		if _, err := db.read.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
			db.log.Warn("checkpoint failed; the next one will catch up", slog.Any("error", err))
		}
	}
}
