package gatewaysql

import (
	"errors"
	"strings"

	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// Classes and codes of PostgreSQL that a wrong set-up causes.
const (
	classLogin       = "28"
	stateNoDatabase  = "3D000"
	stateNoPrivilege = "42501"
)

// refused says why a database is not used, and what to do next. The database was
// left as it was.
func refused(o Options, cause error) error {
	message := fileRefused(o.Path, cause)
	if o.URL != "" {
		message = serverRefused(sqldb.RedactURL(o.URL), cause)
	}
	return wire.WrapError(wire.CodeStorageUnavailable, message, cause)
}

func fileRefused(path string, cause error) string {
	switch {
	case errors.Is(cause, sqldb.ErrFull):
		return "The disk is full, so " + path + " cannot be used. Nothing in it is damaged: make room and start again."
	case errors.Is(cause, sqldb.ErrSchemaNewer):
		return path + " was written by a newer version of the program. It was left as it is: use that version, or start with another data_dir."
	case errors.Is(cause, sqldb.ErrForeign):
		return path + " is the database of another program. It was left as it is: start with another data_dir."
	}
	return path + " cannot be used as the gateway's store. It was left as it is: put a backup in its place, or start with another data_dir."
}

func serverRefused(url string, cause error) string {
	state := sqldb.SQLState(cause)
	advice := "cannot be used as the gateway's store. It was left as it is: correct what is wrong with it, or name another one."
	switch {
	case errors.Is(cause, sqldb.ErrBadURL):
		return "database_url does not name a PostgreSQL database."
	case errors.Is(cause, sqldb.ErrUnreachable):
		advice = "cannot be reached. See that the server runs and that host and port are right."
	case errors.Is(cause, sqldb.ErrClaimed):
		advice = "is in use by another gateway. Stop that one first, or name another database, or a schema of its own with ?search_path=NAME."
	case errors.Is(cause, sqldb.ErrUnsuitable):
		advice = "lacks what the store rests on. It was left as it is."
	case errors.Is(cause, sqldb.ErrSchemaNewer):
		advice = "was written by a newer version of the program. It was left as it is: use that version, or name another database or schema."
	case errors.Is(cause, sqldb.ErrForeign):
		advice = "holds the tables of another program. It was left as it is: name an empty database, or an empty schema with ?search_path=NAME."
	case strings.HasPrefix(state, classLogin):
		advice = "does not let this user in. See that user and password are right."
	case state == stateNoDatabase:
		advice = "does not exist. Make it with: createdb NAME"
	case state == stateNoPrivilege:
		advice = "does not let this user make tables. Make the user the owner of the database or of the schema."
	}
	return "The database " + url + " " + advice
}
