package chat_test

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
)

// lockName is a lock of a transaction that a test can hold.
type lockName string

const (
	orgLock    lockName = "org"
	threadLock lockName = "thread"
	rowLock    lockName = "queue row"
)

// gates lets a test hold a named lock. On PostgreSQL another transaction holds the
// row. SQLite has one writer and no such locks: there an update that comes to the
// org or the thread is undone and waits outside of the writer, since it has changed
// nothing yet that others could see, and one that comes to a queue row waits inside.
type gates struct {
	r *rig
	gateway.ChatStore

	mu      sync.Mutex
	shut    map[lockName]chan struct{}
	waiting int
}

// gated puts gates into the store of a rig.
func gated(r *rig) *gates {
	g := &gates{r: r, shut: make(map[lockName]chan struct{})}
	r.wrap = func(s gateway.ChatStore) gateway.ChatStore { g.ChatStore = s; return g }
	r.respawn()
	return g
}

var errGated = errors.New("waits for a lock")

func (g *gates) gate(l lockName) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut[l]
}

func (g *gates) wait(gate chan struct{}) {
	g.mu.Lock()
	g.waiting++
	g.mu.Unlock()
	<-gate
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
}

func (g *gates) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	for {
		var at chan struct{}
		err := g.ChatStore.Update(ctx, func(tx gateway.ChatTx) error { return fn(gatedTx{tx, g, &at}) })
		if !errors.Is(err, errGated) {
			return err
		}
		g.wait(at)
	}
}

type gatedTx struct {
	gateway.ChatTx
	g  *gates
	at *chan struct{}
}

func (tx gatedTx) outside(l lockName) error {
	if gate := tx.g.gate(l); gate != nil {
		*tx.at = gate
		return errGated
	}
	return nil
}

func (tx gatedTx) LockOrg(ctx context.Context, orgID string) error {
	if err := tx.outside(orgLock); err != nil {
		return err
	}
	return tx.ChatTx.LockOrg(ctx, orgID)
}

func (tx gatedTx) LockThread(ctx context.Context, threadID string) error {
	if err := tx.outside(threadLock); err != nil {
		return err
	}
	return tx.ChatTx.LockThread(ctx, threadID)
}

func (tx gatedTx) LockQueueRow(ctx context.Context, eventID string) error {
	if gate := tx.g.gate(rowLock); gate != nil {
		tx.g.wait(gate)
	}
	return tx.ChatTx.LockQueueRow(ctx, eventID)
}

// hold takes a lock until the returned function runs.
func (g *gates) hold(l lockName, id string) (free func()) {
	g.r.Helper()
	if g.r.place.Kind.Name != gatewaytest.Postgres {
		gate := make(chan struct{})
		g.mu.Lock()
		g.shut[l] = gate
		g.mu.Unlock()
		free = sync.OnceFunc(func() {
			g.mu.Lock()
			delete(g.shut, l)
			g.mu.Unlock()
			close(gate)
		})
		g.r.t.Cleanup(free)
		return free
	}
	locked, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- g.ChatStore.Update(g.r.ctx, func(tx gateway.ChatTx) error {
			lock := map[lockName]func(context.Context, string) error{
				orgLock: tx.LockOrg, threadLock: tx.LockThread, rowLock: tx.LockQueueRow,
			}[l]
			err := lock(g.r.ctx, id)
			close(locked)
			<-release
			return err
		})
	}()
	<-locked
	free = sync.OnceFunc(func() {
		close(release)
		if err := <-done; err != nil {
			g.r.t.Error(err)
		}
	})
	g.r.t.Cleanup(free)
	return free
}

// await waits until n updates wait for locks.
func (g *gates) await(n int) {
	g.r.Helper()
	g.r.until("updates wait for a lock", func() bool {
		got, err := g.r.place.Waiters(g.r.ctx)
		g.r.must(err)
		g.mu.Lock()
		defer g.mu.Unlock()
		return got+g.waiting >= n
	})
}

func audit() gateway.AuditEntry { return gateway.AuditEntry{ID: uuid.NewString()} }

// entitle says what ann's org may spend.
func (r *rig) entitle(status gateway.EntitlementStatus, credits *int64) {
	r.Helper()
	r.must(r.sql.Accounts().SetEntitlement(r.ctx, ann.OrgID, gateway.Entitlement{Status: status, Credits: credits}, audit()))
}

// limit bounds ann's org and each of its members.
func (r *rig) limit(org, member gateway.Limits) {
	r.Helper()
	r.must(r.sql.Accounts().SetOrgLimits(r.ctx, ann.OrgID, org, audit()))
	r.must(r.sql.Accounts().SetMemberDefaults(r.ctx, ann.OrgID, member, audit()))
}

// sending is a send that runs beside the test.
type sending struct {
	reply gateway.SendReply
	err   error
	done  chan struct{}
}

func (r *rig) sendAside(actor gateway.Actor, req gateway.SendRequest) *sending {
	s := &sending{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.reply, s.err = r.Send(r.ctx, actor, req)
	}()
	return s
}

func message(threadID, prompt string) gateway.SendRequest {
	return gateway.SendRequest{ThreadID: threadID, ClientEventID: id(), UserMessage: text(prompt)}
}
