package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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

// Update runs fn in a transaction and returns once that is durable. fn runs in
// the writer goroutine: it must be quick, call no network, use only tx, and must
// not call Update. An error of fn, or a panic, which becomes an error, undoes
// what fn did and nothing else.
//
// ctx is honoured while the update waits for its turn; once fn has begun, Update
// returns how it really ended. Errors: that of fn, as it is; ErrClosed; the cause
// of ctx; ErrIndeterminate; any other error means that nothing was stored.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
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
func (db *DB) enqueue(ctx context.Context, r *request) error {
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
func (db *DB) refusal() error {
	if cause := db.broken.Load(); cause != nil {
		return *cause
	}
	return ErrClosed
}

// runWriter is the writer goroutine. Only it touches w. It returns after Close,
// with the queue empty.
func (db *DB) runWriter(w *conn) {
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
		if cause := db.broken.Load(); cause != nil {
			answer(batch, *cause)
			continue
		}
		db.commitGroup(w, batch)
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
func (db *DB) gather(batch *[]*request) bool {
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
func (db *DB) commitGroup(w *conn, batch []*request) {
	ctx := context.Background()
	if err := db.begin(ctx, w); err != nil {
		answer(batch, fmt.Errorf("sqldb: begin: %w", err))
		return
	}
	stored, err := runGroup(ctx, w, batch)
	if err != nil || stored == 0 {
		if rerr := w.exec(ctx, "ROLLBACK"); rerr != nil && err == nil {
			// Nothing was to be kept; begin starts by ending what is left open.
			db.log.Warn("rolling back an update failed", slog.Any("error", rerr))
		}
		answer(batch, err)
		return
	}
	if err := w.exec(ctx, "COMMIT"); err != nil {
		answer(batch, db.commitFailed(ctx, w, err))
		return
	}
	for _, r := range batch {
		if r.err == nil {
			db.runHooks(r.tx.onCommit)
		}
	}
	answer(batch, nil)
}

// begin opens the transaction. A transaction that an earlier failure left open is
// ended first.
func (db *DB) begin(ctx context.Context, w *conn) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	const begin = "BEGIN IMMEDIATE"
	err := w.exec(ctx, begin)
	if err == nil {
		return nil
	}
	if w.exec(ctx, "ROLLBACK") != nil {
		return err
	}
	return w.exec(ctx, begin)
}

// runGroup runs each function and counts those whose changes are to be stored. An
// error means that the transaction is lost as a whole: then none is.
func runGroup(ctx context.Context, w *conn, batch []*request) (stored int, err error) {
	alone := len(batch) == 1
	for _, r := range batch {
		if !alone {
			if err := w.exec(ctx, "SAVEPOINT member"); err != nil {
				return 0, fmt.Errorf("sqldb: savepoint: %w", err)
			}
		}
		r.tx = Tx{conn: w, write: true}
		r.err = call(r.fn, &r.tx)
		if r.err == nil {
			stored++
		}
		if alone {
			return stored, nil
		}
		if r.err != nil {
			if err := w.exec(ctx, "ROLLBACK TO member"); err != nil {
				return 0, fmt.Errorf("sqldb: another update broke the transaction: %w", err)
			}
		}
		if err := w.exec(ctx, "RELEASE member"); err != nil {
			return 0, fmt.Errorf("sqldb: release: %w", err)
		}
	}
	return stored, nil
}

func call(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sqldb: update panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(tx)
}

// commitFailed tells what a failed COMMIT means and, if nobody can know, breaks
// the database.
func (db *DB) commitFailed(ctx context.Context, w *conn, cause error) error {
	rerr := w.exec(ctx, "ROLLBACK")
	if notCommitted(cause) {
		// SQLite may have rolled back by itself; then there is nothing to end.
		return fmt.Errorf("sqldb: commit: %w", cause)
	}
	err := fmt.Errorf("%w: %w", ErrIndeterminate, errors.Join(cause, rerr))
	db.fail(err)
	return err
}

func (db *DB) fail(err error) {
	if db.broken.CompareAndSwap(nil, &err) {
		close(db.lost)
	}
}

// Broken is closed once a commit had an outcome that nobody can know: every update
// is refused with ErrIndeterminate from then on, until the database is opened again.
func (db *DB) Broken() <-chan struct{} { return db.lost }

// runHooks runs the functions of one committed update. Its changes are durable,
// so a panic in a hook cannot be the update's error.
func (db *DB) runHooks(hooks []func()) {
	for _, h := range hooks {
		func() {
			defer func() {
				if p := recover(); p != nil {
					db.log.Error("a function after commit panicked",
						slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				}
			}()
			h()
		}()
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
func (db *DB) runCheckpointer() {
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
