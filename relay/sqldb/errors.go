package sqldb

import (
	"errors"

	"github.com/ncruces/go-sqlite3"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("sqldb: database is closed")
	// ErrIndeterminate marks a commit whose outcome is unknown. The DB refuses
	// every later update with it: stop, open the database again, and read which
	// of the two happened.
	ErrIndeterminate = errors.New("sqldb: outcome of a commit is unknown; reopen the database")
	// ErrClaimed tells that a part of the database has an owner already.
	ErrClaimed = errors.New("sqldb: already in use")
	// ErrSchemaNewer marks a database that a newer release has migrated.
	ErrSchemaNewer = errors.New("sqldb: database was written by a newer release")
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
	var pg interface{ SQLState() string }
	return errors.As(err, &pg) && pg.SQLState() == "23505"
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
