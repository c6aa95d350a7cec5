package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// rollbackLimit bounds the end of a transaction that is not kept; a connection
// that takes longer is given up.
const rollbackLimit = 5 * time.Second

var errRolledBack = errors.New("the transaction was broken by a statement before")

// pgSession is one connection of a pool in a transaction.
type pgSession struct {
	c     *sql.Conn
	limit context.Context // that of the statements of an update; nil in a view
	open  bool            // a transaction was begun and not ended
	rows  []*sql.Rows     // given out; one left open would keep the connection
}

// session takes a connection from a pool; it is given back with release.
func session(ctx context.Context, pool *sql.DB) (*pgSession, error) {
	c, err := pool.Conn(ctx)
	switch {
	case err == nil:
		return &pgSession{c: c}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, unreachable(err)
}

// begin opens a transaction that writes and gives its number.
func (s *pgSession) begin(ctx context.Context) (xid string, err error) {
	results, err := s.simple(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_current_xact_id()")
	if err != nil {
		return "", err
	}
	s.open = true
	if len(results) != 2 || len(results[1].Rows) != 1 {
		return "", errors.New("the server gave no number of the transaction")
	}
	return string(results[1].Rows[0][0]), nil
}

func (s *pgSession) beginView(ctx context.Context) error {
	_, err := s.simple(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	s.open = err == nil
	return err
}

func (s *pgSession) commit(ctx context.Context) error {
	results, err := s.simple(ctx, "COMMIT")
	if err != nil {
		return err
	}
	s.open = false
	if len(results) != 1 || results[0].CommandTag.String() != "COMMIT" {
		return errRolledBack
	}
	return nil
}

// release ends what is open and gives the connection back, or closes it if that
// fails. It may be called again.
func (s *pgSession) release() {
	if s.c == nil {
		return
	}
	c := s.c
	for _, rows := range s.rows {
		_ = rows.Close()
	}
	if s.open {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackLimit)
		defer cancel()
		if _, err := s.simple(ctx, "ROLLBACK"); err != nil {
			// Closed instead of given back.
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}
	}
	s.c = nil
	_ = c.Close()
}

// simple sends statements without arguments in one message.
func (s *pgSession) simple(ctx context.Context, query string) (results []*pgconn.Result, err error) {
	err = s.c.Raw(func(raw any) error {
		c, ok := raw.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("unexpected driver connection %T", raw)
		}
		results, err = c.Conn().PgConn().Exec(ctx, query).ReadAll()
		return err
	})
	return results, err
}

func (s *pgSession) exec(ctx context.Context, query string, args []any) (sql.Result, error) {
	return s.c.ExecContext(s.within(ctx), rebind(query), args...)
}

func (s *pgSession) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	rows, err := s.c.QueryContext(s.within(ctx), rebind(query), args...)
	if err == nil {
		s.rows = append(s.rows, rows)
	}
	return rows, err
}

func (s *pgSession) queryRow(ctx context.Context, query string, args []any) (*sql.Row, error) {
	return s.c.QueryRowContext(s.within(ctx), rebind(query), args...), nil
}

// within is the context of a statement: in an update the caller's is without an
// end.
func (s *pgSession) within(ctx context.Context) context.Context {
	if s.limit != nil {
		return s.limit
	}
	return ctx
}
