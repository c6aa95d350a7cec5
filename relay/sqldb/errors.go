package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ncruces/go-sqlite3"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("sqldb: database is closed")
	// ErrIndeterminate marks a commit whose outcome is unknown. On SQLite the DB
	// refuses every later update with it: stop, open the database again, and read
	// which of the two happened. On PostgreSQL it stands for the one update, and
	// comes only when the server could not be asked afterwards either.
	ErrIndeterminate = errors.New("sqldb: outcome of a commit is unknown")
	// ErrClaimed tells that a part of the database has an owner already.
	ErrClaimed = errors.New("sqldb: already in use")
	// ErrSchemaNewer marks a database that a newer release has migrated.
	ErrSchemaNewer = errors.New("sqldb: database was written by a newer release")
	// ErrForeign marks a database that holds tables of another program.
	ErrForeign = errors.New("sqldb: database belongs to another program")
	// ErrBadURL marks a URL that does not name a PostgreSQL database.
	ErrBadURL = errors.New("sqldb: not a PostgreSQL URL")
	// ErrUnreachable marks a server that no connection was had to.
	ErrUnreachable = errors.New("sqldb: database server cannot be reached")
	// ErrUnsuitable marks a server that lacks what this package rests on.
	ErrUnsuitable = errors.New("sqldb: database server is not suitable")
)

// Error classes of PostgreSQL.
const (
	stateUnique           = "23505"
	stateSerialisation    = "40001"
	stateDeadlock         = "40P01"
	stateLockNotAvailable = "55P03"
	stateTooManyClients   = "53300"
	stateDiskFull         = "53100"
	stateAdminShutdown    = "57P01"
	stateCrashShutdown    = "57P02"
	stateCannotConnectNow = "57P03"
	classConnection       = "08"
	severityError         = "ERROR"
)

// Primary result codes of SQLite.
const (
	codeBusy       = 5
	codeLocked     = 6
	codeFull       = 13
	codeConstraint = 19

	codeConstraintPrimaryKey = codeConstraint | 6<<8
	codeConstraintUnique     = codeConstraint | 8<<8
	codeConstraintRowID      = codeConstraint | 10<<8
)

// IsUnique tells whether err is a violation of a uniqueness constraint, a
// primary key included.
func IsUnique(err error) bool {
	switch extendedCode(err) {
	case codeConstraintUnique, codeConstraintPrimaryKey, codeConstraintRowID:
		return true
	}
	return SQLState(err) == stateUnique
}

// SQLState is the five-letter code of an error of a PostgreSQL server, or "".
func SQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// transient tells whether a transaction that failed with err before its commit may
// do better when it is run again: others were in its way, or its connection was
// lost.
func transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch state := SQLState(err); {
	case state == "":
		return connectionLost(err)
	case strings.HasPrefix(state, classConnection):
		return true
	default:
		switch state {
		case stateSerialisation, stateDeadlock, stateLockNotAvailable, stateTooManyClients,
			stateAdminShutdown, stateCrashShutdown, stateCannotConnectNow:
			return true
		}
		return false
	}
}

func connectionLost(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err)
}

// refusedCommit tells whether a failed COMMIT of PostgreSQL is known to have kept
// nothing: the server said so, or it was never asked. A server that ends the
// session may have committed before.
func refusedCommit(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.SeverityUnlocalized == severityError
	}
	return errors.Is(err, errRolledBack) || pgconn.SafeToRetry(err)
}

// unreachable marks a failure to connect that is not an answer of the server.
func unreachable(err error) error {
	if SQLState(err) != "" || errors.Is(err, ErrUnsuitable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// notCommitted tells whether a failed COMMIT is known to have written nothing
// that a later reader could take for a commit. A failed sync is not among these:
// the frames may be whole on disk.
func notCommitted(err error) bool {
	switch extendedCode(err) & 0xff {
	case codeBusy, codeLocked, codeFull, codeConstraint:
		return true
	}
	return false
}

// extendedCode is SQLite's extended result code in err's chain, of either
// driver, or 0.
func extendedCode(err error) int {
	var nc sqlite3.ExtendedErrorCode
	if errors.As(err, &nc) {
		return int(nc)
	}
	var mod interface{ Code() int }
	if errors.As(err, &mod) {
		return mod.Code()
	}
	return 0
}
