package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Tx is what a function given to Update or View may do. It ends when the
// function returns and must not be kept, nor used by another goroutine.
//
// Statements are written with "?" placeholders and are prepared once for each
// connection. Rows must be closed before another statement is run. On PostgreSQL
// a failed statement spoils the transaction: all that is left to do is to return.
type Tx struct {
	stmts    statements
	dialect  Dialect
	write    bool
	onCommit []func()

	order   *sequencer // nil where the writer gives the order
	tickets []*ticket
	failed  error // of the first statement that failed
}

// statements is a connection in a transaction.
type statements interface {
	exec(ctx context.Context, query string, args []any) (sql.Result, error)
	query(ctx context.Context, query string, args []any) (*sql.Rows, error)
	queryRow(ctx context.Context, query string, args []any) (*sql.Row, error)
}

// errTime guards the rule that times are stored as integers: drivers write a
// time.Time in different forms, so that one cannot read what another wrote.
var errTime = errors.New("sqldb: a time.Time is not storable; use integer milliseconds")

// Dialect is the kind of the database, for the few statements that have no
// portable form.
func (tx *Tx) Dialect() Dialect { return tx.dialect }

// Exec runs a statement that returns no rows.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, args, err := tx.prepare(ctx, args)
	if err != nil {
		return nil, err
	}
	res, err := tx.stmts.exec(ctx, query, args)
	return res, tx.note(err)
}

// Query runs a statement that returns rows. The caller closes them.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*Rows, error) {
	ctx, args, err := tx.prepare(ctx, args)
	if err != nil {
		return nil, err
	}
	rows, err := tx.stmts.query(ctx, query, args) //nolint:rowserrcheck // the caller asks Rows.Err
	if err != nil {
		return nil, tx.note(err)
	}
	return &Rows{Rows: rows, tx: tx}, nil
}

// QueryRow runs a statement that returns at most one row. Scan gives
// sql.ErrNoRows if there was none.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) Row {
	ctx, args, err := tx.prepare(ctx, args)
	if err != nil {
		return Row{err: err}
	}
	row, err := tx.stmts.queryRow(ctx, query, args)
	return Row{row: row, tx: tx, err: tx.note(err)}
}

// Rows is the result of Query.
type Rows struct {
	*sql.Rows
	tx *Tx
}

// Scan copies the columns of the row into dest.
func (r *Rows) Scan(dest ...any) error {
	if err := r.Rows.Scan(dest...); err != nil {
		return err
	}
	r.tx.decode(dest)
	return nil
}

// Err tells what ended the rows before their end.
func (r *Rows) Err() error { return r.tx.note(r.Rows.Err()) }

// Row is the result of QueryRow.
type Row struct {
	row *sql.Row
	tx  *Tx
	err error
}

// Scan copies the columns of the row into dest, or tells why there is none.
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if err := r.row.Scan(dest...); err != nil {
		return r.tx.note(err)
	}
	r.tx.decode(dest)
	return nil
}

// OnCommit registers fn to run once the transaction is durable, before Update
// returns. On SQLite it runs in the writer goroutine, in commit order; on
// PostgreSQL in the goroutine of Update, in commit order among the updates that
// share a key of Sequence. fn must not block and must not call Update. It is
// dropped if the function or the commit fails. In a View it never runs.
func (tx *Tx) OnCommit(fn func()) { tx.onCommit = append(tx.onCommit, fn) }

// Sequence puts this update in its place among those that name the same key: their
// functions after commit run one update after the other, in the order of these
// calls. It is to be called right after the transaction took the row lock that key
// stands for, before any other statement, so that this order is that of the
// commits. An update that is undone gives its place up. It does nothing on SQLite,
// where the single writer orders all, nor in a View.
func (tx *Tx) Sequence(key string) {
	if tx.order == nil || !tx.write {
		return
	}
	for _, t := range tx.tickets {
		if t.key == key {
			return
		}
	}
	tx.tickets = append(tx.tickets, tx.order.take(key))
}

// note keeps the first failure of a statement: the function may return another
// error, or none, and the transaction is lost all the same on PostgreSQL.
func (tx *Tx) note(err error) error {
	if err != nil && tx.failed == nil && !errors.Is(err, sql.ErrNoRows) {
		tx.failed = err
	}
	return err
}

func (tx *Tx) prepare(ctx context.Context, args []any) (context.Context, []any, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if tx.write {
		// An interrupted write would roll back a whole group, or leave the outcome
		// open, so a statement that has begun is not interrupted.
		ctx = context.WithoutCancel(ctx)
	}
	for _, a := range args {
		if _, ok := a.(time.Time); ok {
			return nil, nil, errTime
		}
	}
	if tx.dialect == Postgres {
		var err error
		args, err = encodeArgs(args)
		return ctx, args, err
	}
	return ctx, args, nil
}

// decode gives texts their own form back.
func (tx *Tx) decode(dest []any) {
	if tx.dialect == Postgres {
		decodeTexts(dest)
	}
}

// call runs the function of an update; its panic is an error.
func call(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sqldb: update panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(tx)
}

// runHooks runs the functions of one committed update. Its changes are durable,
// so a panic in a hook cannot be the update's error.
func runHooks(log *slog.Logger, hooks []func()) {
	for _, h := range hooks {
		func() {
			defer func() {
				if p := recover(); p != nil {
					log.Error("a function after commit panicked",
						slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				}
			}()
			h()
		}()
	}
}
