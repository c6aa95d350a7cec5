package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Tx is what a function given to Update or View may do. It ends when the
// function returns and must not be kept, nor used by another goroutine.
//
// Statements are written with "?" placeholders and are prepared once for each
// connection. Rows must be closed before the same query is run again.
type Tx struct {
	conn     *conn
	write    bool
	onCommit []func()
}

// errTime guards the rule that times are stored as integers: drivers write a
// time.Time in different forms, so that one cannot read what another wrote.
var errTime = errors.New("sqldb: a time.Time is not storable; use integer milliseconds")

// Dialect is the dialect of the database, for the few statements that have no
// portable form.
func (tx *Tx) Dialect() Dialect { return tx.conn.dialect }

// Exec runs a statement that returns no rows.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, s, err := tx.prepare(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// Query runs a statement that returns rows. The caller closes them.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, s, err := tx.prepare(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRow runs a statement that returns at most one row. Scan gives
// sql.ErrNoRows if there was none.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) Row {
	ctx, s, err := tx.prepare(ctx, query, args)
	if err != nil {
		return Row{err: err}
	}
	return Row{row: s.QueryRowContext(ctx, args...)}
}

// Row is the result of QueryRow.
type Row struct {
	row *sql.Row
	err error
}

// Scan copies the columns of the row into dest, or tells why there is none.
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.row.Scan(dest...)
}

// OnCommit registers fn to run once the transaction is durable: in the writer
// goroutine, in commit order, before Update returns. fn must not block and must
// not call Update. It is dropped if the function or the commit fails. In a View
// it never runs.
func (tx *Tx) OnCommit(fn func()) { tx.onCommit = append(tx.onCommit, fn) }

func (tx *Tx) prepare(ctx context.Context, query string, args []any) (context.Context, *sql.Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	if tx.write {
		// An interrupted write would roll back the whole group, so a statement
		// that has begun is not interrupted.
		ctx = context.WithoutCancel(ctx)
	}
	for _, a := range args {
		if _, ok := a.(time.Time); ok {
			return nil, nil, errTime
		}
	}
	s, err := tx.conn.stmt(ctx, query)
	return ctx, s, err
}
