package sqldb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// ownerLock names the locks of Own.
	ownerLock = 0x666c6f77
	// ownPatience is how long Own waits for a program that is about to end, or whose
	// end the server has not noticed yet.
	ownPatience = 5 * time.Second
	// probeEvery is how often the connection that holds a lock is tried, probeLimit
	// how long it has for an answer.
	probeEvery = 5 * time.Second
	probeLimit = 10 * time.Second
)

// pgOwner holds a part of a PostgreSQL database for one program: an advisory lock
// of a session, on a connection of its own. The server frees it with the session,
// so nothing is left behind by a program that was killed.
type pgOwner struct {
	config *pgx.ConnConfig
	name   string
	log    *slog.Logger
	lost   chan struct{}
	conn   *pgx.Conn // nil between two connections; of take, then of watch
}

// own takes the lock, or fails with ErrClaimed.
func (p *postgres) own(ctx context.Context, name string) (*Ownership, error) {
	o := &pgOwner{config: p.config.Copy(), name: name, log: p.log, lost: make(chan struct{})}
	// A name of its own tells a connection of this program, which it lost and the
	// server still keeps, from that of another.
	o.config.RuntimeParams["application_name"] = "fairlead-owner-" + rand.Text()[:12]
	// The server learns within half a minute that a program's machine is gone.
	for name, seconds := range map[string]string{
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "4",
	} {
		o.config.RuntimeParams[name] = seconds
	}
	began := time.Now()
	for try := 1; ; try++ {
		got, holder, err := o.take(ctx)
		if err != nil {
			return nil, err
		}
		if got {
			break
		}
		if time.Since(began) > ownPatience {
			return nil, fmt.Errorf("%w: %s, by %s", ErrClaimed, name, holder)
		}
		if !pause(ctx, try) {
			return nil, context.Cause(ctx)
		}
	}
	watch, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.watch(watch)
	}()
	return &Ownership{lost: o.lost, release: sync.OnceFunc(func() { end(); <-done })}, nil
}

// take connects and takes the lock; else it tells which other program holds it, ""
// if that is about to change.
func (o *pgOwner) take(ctx context.Context) (got bool, holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit+o.config.ConnectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, o.config)
	if err != nil {
		return false, "", unreachable(err)
	}
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, hashtext(current_schema() || '/' || $2))`,
		int32(ownerLock), o.name).Scan(&got)
	if err == nil && got {
		o.conn = conn
		return true, "", nil
	}
	defer func() { _ = conn.Close(ctx) }()
	if err == nil {
		holder, err = o.holder(ctx, conn)
	}
	return false, holder, err
}

// holder tells which other program has the lock. A connection of this one, which
// the server has not given up yet, is ended.
func (o *pgOwner) holder(ctx context.Context, conn *pgx.Conn) (string, error) {
	var pid int32
	var program, address string
	err := conn.QueryRow(ctx, `SELECT l.pid, COALESCE(a.application_name, ''), COALESCE(host(a.client_addr), 'the same machine')
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1::bigint::oid
		AND l.objid = (hashtext(current_schema() || '/' || $2)::bigint & 4294967295)::oid
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
		int64(ownerLock), o.name).Scan(&pid, &program, &address)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil // it has gone meanwhile
	}
	if err == nil && program == o.config.RuntimeParams["application_name"] {
		_, err = conn.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid)
		return "", err
	}
	return fmt.Sprintf("a program on %s (server process %d)", address, pid), err
}

// watch keeps the lock until ctx ends: it notices when its connection is gone, and
// takes the lock again on another one.
func (o *pgOwner) watch(ctx context.Context) {
	defer func() {
		if o.conn != nil {
			closing, cancel := context.WithTimeout(context.Background(), rollbackLimit)
			defer cancel()
			_ = o.conn.Close(closing)
		}
	}()
	for {
		err := o.hold(ctx)
		if ctx.Err() != nil {
			return
		}
		o.log.WarnContext(ctx, "the connection that holds the database for this program is lost; taking it again", slog.Any("error", err))
		_ = o.conn.Close(ctx)
		o.conn = nil
		if !o.again(ctx) {
			return
		}
	}
}

// hold returns once the connection is gone, or ctx ends.
func (o *pgOwner) hold(ctx context.Context) error {
	for {
		wait, cancel := context.WithTimeout(ctx, probeEvery)
		_, err := o.conn.WaitForNotification(wait) // nobody sends any: it tells of the end
		cancel()
		if ctx.Err() != nil || (err != nil && !pgconn.Timeout(err)) {
			return err
		}
		probe, cancel := context.WithTimeout(ctx, probeLimit)
		err = o.conn.Ping(probe)
		cancel()
		if err != nil {
			return err
		}
	}
}

// again takes the lock on a new connection, however long the server is away. It is
// false if ctx ended, or if another program has the lock by now.
func (o *pgOwner) again(ctx context.Context) bool {
	for try := 1; ; try++ {
		got, holder, err := o.take(ctx)
		switch {
		case got:
			o.log.InfoContext(ctx, "the database is held for this program again")
			return true
		case err == nil && holder != "":
			o.log.ErrorContext(ctx, "another program has taken the database", slog.String("holder", holder))
			close(o.lost)
			return false
		}
		if !pause(ctx, try) {
			return false
		}
	}
}
