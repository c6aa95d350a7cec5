package sqldb

import (
	"context"
	"database/sql"
	"fmt"
)

// Dialect names the kind of a database. What differs between kinds is said here
// and nowhere else.
type Dialect string

// SQLite is the one dialect today.
const SQLite Dialect = "sqlite"

// Rebind turns "?" placeholders into those of the dialect.
func (d Dialect) Rebind(query string) string { return query }

// verify checks on a fresh connection what durability rests on: a driver's
// default, or a setting that silently did not take, must not weaken it.
func (d Dialect) verify(ctx context.Context, c *sql.Conn) error {
	for _, p := range []struct{ pragma, want string }{
		{"journal_mode", "wal"},
		{"synchronous", "2"},
		{"foreign_keys", "1"},
		{"busy_timeout", "5000"},
	} {
		var got string
		if err := c.QueryRowContext(ctx, "PRAGMA "+p.pragma).Scan(&got); err != nil {
			return fmt.Errorf("read %s: %w", p.pragma, err)
		}
		if got != p.want {
			return fmt.Errorf("%s is %q, need %q", p.pragma, got, p.want)
		}
	}
	return nil
}
