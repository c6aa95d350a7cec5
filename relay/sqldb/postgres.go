package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	defaultPostgresReaders = 8
	defaultPostgresWriters = 16

	// An update that the server breaks up is run at most maxTries times and not
	// again after maxTrying.
	maxTries  = 10
	maxTrying = 30 * time.Second
	// The first pause between two tries, and the longest.
	minPause = 10 * time.Millisecond
	maxPause = 400 * time.Millisecond

	// attemptLimit ends a try whose server does not answer at all; the limits of
	// the session end all others before.
	attemptLimit = 2 * time.Minute
	commitLimit  = 20 * time.Second
)

// postgres is a schema of a server.
type postgres struct {
	shown  string // the URL without its password
	config *pgx.ConnConfig
	log    *slog.Logger
	write  *sql.DB
	read   *sql.DB
	order  sequencer
	never  chan struct{} // what broken gives

	patience time.Duration // how long the outcome of a commit is asked for

	queued atomic.Int64

	// mu is held for reading while a call begins, and for writing while closed is
	// set; running counts the calls that have begun.
	mu      sync.RWMutex
	closed  bool
	running sync.WaitGroup
}

func (p *postgres) name() string { return p.shown }

func (p *postgres) dialect() Dialect { return Postgres }

func (p *postgres) waiting() int { return int(p.queued.Load()) }

func (p *postgres) broken() <-chan struct{} { return p.never }

// enter counts a call in, unless the database is closing.
func (p *postgres) enter() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return ErrClosed
	}
	p.running.Add(1)
	return nil
}

func (p *postgres) close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
	if !first {
		return nil
	}
	return errors.Join(p.read.Close(), p.write.Close())
}

// update runs fn until a try tells for good how it ended.
func (p *postgres) update(ctx context.Context, fn func(*Tx) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.running.Done()
	began := time.Now()
	for try := 1; ; try++ {
		again, err := p.attempt(ctx, fn)
		if !again {
			return err
		}
		if try == maxTries || time.Since(began) > maxTrying {
			return fmt.Errorf("sqldb: given up after %d tries: %w", try, err)
		}
		if !pause(ctx, try) {
			return context.Cause(ctx)
		}
	}
}

// pause waits longer with each try, by chance, so that those who hindered each
// other do not meet again. It is false if ctx ended.
func pause(ctx context.Context, try int) bool {
	longest := min(minPause<<min(try, 10), maxPause)
	timer := time.NewTimer(longest/2 + rand.N(longest/2)) //nolint:gosec // chance, not a secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt runs fn once. again tells that nothing was stored and that another run
// may end otherwise.
func (p *postgres) attempt(ctx context.Context, fn func(*Tx) error) (again bool, err error) {
	p.queued.Add(1)
	s, err := session(ctx, p.write)
	if err != nil {
		p.queued.Add(-1)
		return transient(err), err
	}
	// It also ends what a fn leaves that does not return (runtime.Goexit, as a
	// failing test does).
	tx := &Tx{stmts: s, dialect: Postgres, write: true, order: &p.order}
	defer func() {
		s.release()
		p.order.leave(tx.tickets)
	}()
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptLimit)
	defer cancel()
	s.limit = work
	xid, err := s.begin(work)
	p.queued.Add(-1)
	if err != nil {
		return transient(err), fmt.Errorf("sqldb: begin: %w", err)
	}
	err = call(fn, tx)
	if transient(tx.failed) {
		// Whatever fn made of the failure, its transaction is lost.
		return true, errors.Join(err, tx.failed)
	}
	if err != nil {
		return false, err
	}
	if kept, again, err := p.commit(ctx, s, xid); !kept {
		// A function that goes on after a failed statement learns here which it was.
		return again, errors.Join(err, tx.failed)
	}
	// The connection goes back before the wait: those before need one, too.
	s.release()
	p.order.wait(tx.tickets)
	runHooks(p.log, tx.onCommit)
	return false, nil
}

// commit ends a transaction and finds out whether it was kept.
func (p *postgres) commit(ctx context.Context, s *pgSession, xid string) (kept, again bool, err error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	cause := s.commit(limited)
	switch {
	case cause == nil:
		return true, false, nil
	case refusedCommit(cause):
		return false, transient(cause), fmt.Errorf("sqldb: commit: %w", cause)
	}
	s.release()
	p.log.WarnContext(ctx, "the connection was lost during a commit; asking for its outcome", slog.Any("error", cause))
	switch status, err := p.outcome(ctx, xid); status {
	case "committed":
		return true, false, nil
	case "aborted":
		return false, true, fmt.Errorf("sqldb: commit: %w", cause)
	default:
		return false, false, fmt.Errorf("%w: %w", ErrIndeterminate, errors.Join(cause, err))
	}
}

// outcome asks what became of a transaction, until the server knows it.
func (p *postgres) outcome(ctx context.Context, xid string) (status string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.patience)
	defer cancel()
	for try := 1; ; try++ {
		var found sql.NullString
		err = p.read.QueryRowContext(ctx, "SELECT pg_xact_status($1::text::xid8)", xid).Scan(&found)
		if err == nil && found.String != "in progress" {
			return found.String, nil
		}
		if !pause(ctx, try) {
			return "", errors.Join(err, context.Cause(ctx))
		}
	}
}

// view runs fn in a transaction that sees one state of the database.
func (p *postgres) view(ctx context.Context, fn func(*Tx) error) (err error) {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.running.Done()
	s, err := session(ctx, p.read)
	if err != nil {
		return err
	}
	defer s.release() // also of a fn that panics
	if err := s.beginView(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("sqldb: begin view: %w", err)
	}
	return fn(&Tx{stmts: s, dialect: Postgres})
}
