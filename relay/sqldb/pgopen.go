package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	connectTimeout = 10 * time.Second
	// maxIdle closes connections that a quiet night needs no more.
	maxIdle = 10 * time.Minute
	// oldestServer has pg_current_xact_id.
	oldestServer = 130000
)

// openPostgres connects once, to tell at once what is wrong.
func openPostgres(ctx context.Context, o Options) (*postgres, error) {
	config, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Readers <= 0 {
		o.Readers = defaultPostgresReaders
	}
	if o.Writers <= 0 {
		o.Writers = defaultPostgresWriters
	}
	p := &postgres{
		shown: RedactURL(o.URL), config: config, log: o.Logger, never: make(chan struct{}), patience: commitLimit,
		write: pool(config, o.Writers), read: pool(config, o.Readers),
	}
	if err := p.verify(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqldb: open %s: %w", p.shown, err), p.close())
	}
	return p, nil
}

// pool makes a pool of at most size connections.
func pool(config *pgx.ConnConfig, size int) *sql.DB {
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(verifyConnection))
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(maxIdle)
	return db
}

// sessionSettings hold for every connection. The time limits stand in the order
// that the package comment gives a reason for.
func sessionSettings() map[string]string {
	return map[string]string{
		"synchronous_commit":                  "on",
		"idle_in_transaction_session_timeout": "10s",
		"lock_timeout":                        "20s",
		"statement_timeout":                   "30s",
		"standard_conforming_strings":         "on",
		"client_encoding":                     "UTF8",
	}
}

// parseURL reads a URL. No error of it holds a part of the URL: what cannot be
// read may be a password.
func parseURL(text string) (*pgx.ConnConfig, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("%w: want postgres://user:password@host:port/name, with odd characters of the password written as %%XX", ErrBadURL)
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		// The wrapper quotes the URL, and not every part of it without secrets.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, fmt.Errorf("%w: %s", ErrBadURL, without(err.Error(), secretsOf(u)))
	}
	strongest := config.RuntimeParams["synchronous_commit"] == "remote_apply"
	for name, value := range sessionSettings() {
		if name != "synchronous_commit" || !strongest {
			config.RuntimeParams[name] = value
		}
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "fairlead"
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	return config, nil
}

// CheckURL tells whether Open would try to connect to a URL. Error: ErrBadURL.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// verifyConnection checks what durability rests on, on each fresh connection: a
// setting that silently did not take must not weaken it.
func verifyConnection(ctx context.Context, c *pgx.Conn) error {
	var commit string
	if err := c.QueryRow(ctx, "SELECT current_setting('synchronous_commit')").Scan(&commit); err != nil {
		return err
	}
	if commit != "on" && commit != "remote_apply" {
		return fmt.Errorf("%w: synchronous_commit is %q, need \"on\"", ErrUnsuitable, commit)
	}
	return nil
}

// verify checks the server.
func (p *postgres) verify(ctx context.Context) error {
	s, err := session(ctx, p.write)
	if err != nil {
		return err
	}
	defer s.release()
	var version int
	var encoding, fsync string
	var schema sql.NullString
	row, err := s.queryRow(ctx, `SELECT current_setting('server_version_num')::int,
		current_setting('server_encoding'), current_setting('fsync'), current_schema()`, nil)
	if err == nil {
		err = row.Scan(&version, &encoding, &fsync, &schema)
	}
	switch {
	case err != nil:
		return err
	case version < oldestServer:
		return fmt.Errorf("%w: its version is %d, need %d or newer", ErrUnsuitable, version/10000, oldestServer/10000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: its encoding is %s, need UTF8", ErrUnsuitable, encoding)
	case !schema.Valid:
		return fmt.Errorf("%w: no schema of its search_path exists", ErrUnsuitable)
	case fsync != "on":
		p.log.WarnContext(ctx, "the database server runs with fsync off: a power cut may lose what was acknowledged")
	}
	return nil
}

// RedactURL is a database URL without its passwords, to be shown. What is no such
// URL is not shown at all.
func RedactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" {
		return "(not a database URL)"
	}
	q := u.Query()
	for name := range q {
		if secretParam(name) {
			q.Set(name, "xxxxx")
		}
	}
	if len(q) > 0 {
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

func secretParam(name string) bool { return strings.Contains(strings.ToLower(name), "password") }

// secretsOf lists the passwords of a URL, in each form in which they may appear.
func secretsOf(u *url.URL) (list []string) {
	add := func(s string) {
		if s != "" {
			list = append(list, s, url.QueryEscape(s), url.PathEscape(s))
		}
	}
	if password, ok := u.User.Password(); ok {
		add(password)
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if secretParam(name) {
				add(v)
			}
		}
	}
	return list
}

func without(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "xxxxx")
	}
	return text
}
