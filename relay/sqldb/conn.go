package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
)

// maxStatements bounds the prepared statements of a connection. The program has
// fewer; a query text built from data would otherwise grow without end.
const maxStatements = 512

// conn is one connection to SQLite with its prepared statements. It is used by
// one goroutine at a time.
type conn struct {
	pool *sql.DB

	c     *sql.Conn // nil until it is needed
	stmts map[string]*sql.Stmt
}

// open connects if the connection is not there and checks what it must promise.
func (c *conn) open(ctx context.Context) error {
	if c.c != nil {
		return nil
	}
	sc, err := c.pool.Conn(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(keepPlans(sc), verifySQLite(ctx, sc)); err != nil {
		return errors.Join(err, sc.Close())
	}
	c.c, c.stmts = sc, make(map[string]*sql.Stmt)
	return nil
}

// keepPlans lets prepared statements keep their plans whatever is bound to them.
// Otherwise SQLite compiles one with a bound LIMIT anew each time that it is run,
// which costs more than running it. The fallback driver cannot be told.
func keepPlans(sc *sql.Conn) error {
	return sc.Raw(func(c any) error {
		n, ok := c.(driver.Conn)
		if !ok {
			return nil
		}
		if _, err := n.Raw().Config(sqlite3.DBCONFIG_ENABLE_QPSG, true); err != nil {
			return fmt.Errorf("keep query plans: %w", err)
		}
		return nil
	})
}

// close gives the connection up; the next use opens another.
func (c *conn) close() error {
	if c.c == nil {
		return nil
	}
	err := errors.Join(c.dropStatements(), c.c.Close())
	c.c = nil
	return err
}

func (c *conn) dropStatements() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	c.stmts = make(map[string]*sql.Stmt)
	return errors.Join(errs...)
}

func (c *conn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	if len(c.stmts) >= maxStatements {
		if err := c.dropStatements(); err != nil {
			return nil, err
		}
	}
	s, err := c.c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// run runs a statement without arguments.
func (c *conn) run(ctx context.Context, query string) error {
	_, err := c.exec(ctx, query, nil)
	return err
}

func (c *conn) exec(ctx context.Context, query string, args []any) (sql.Result, error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (c *conn) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (c *conn) queryRow(ctx context.Context, query string, args []any) (*sql.Row, error) {
	s, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryRowContext(ctx, args...), nil
}

// view runs fn on a free reader.
func (db *sqlite) view(ctx context.Context, fn func(*Tx) error) (err error) {
	var r *conn
	select {
	case <-db.closing:
		return ErrClosed
	default:
	}
	select {
	case r = <-db.readers:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-db.closing:
		return ErrClosed
	}
	defer func() { db.readers <- r }()
	if err := r.open(ctx); err != nil {
		return fmt.Errorf("sqldb: reader: %w", err)
	}
	bg := context.WithoutCancel(ctx)
	if err := r.run(bg, "BEGIN"); err != nil {
		return errors.Join(fmt.Errorf("sqldb: begin view: %w", err), r.close())
	}
	// A deferred rollback also ends the snapshot of a fn that panics.
	defer func() {
		if rerr := r.run(bg, "ROLLBACK"); rerr != nil {
			err = errors.Join(err, fmt.Errorf("sqldb: end view: %w", rerr), r.close())
		}
	}()
	return fn(&Tx{stmts: r, dialect: SQLite})
}
