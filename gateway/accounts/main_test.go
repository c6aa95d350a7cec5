package accounts_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	goodPassword = "correct horse battery"
	adminEmail   = "ada@example.com"
	address      = "192.0.2.7"
)

// bench is a service on a real store, with a clock and a count of hashes.
type bench struct {
	*accounts.Service
	store  *gatewaysql.Store
	clock  *clock
	bus    *bus
	hashes *countingHasher
	log    *bytes.Buffer
	// targets are the hosts that there are; target and "other", if it is not set.
	targets func(ctx context.Context) ([]string, error)
	// changed is told of limits that changed, if it is set.
	changed func(ctx context.Context, orgID string)
}

// installationTurns is what an org may run at once that has no such limit.
const installationTurns = 4

func newBench(t *testing.T) *bench {
	t.Helper()
	return openBench(t, filepath.Join(t.TempDir(), "gateway.db"))
}

// throttle has small buckets: each attempt in a test costs a hash.
var throttle = accounts.ThrottleConfig{
	AddressEvery: 10 * time.Second, AddressBurst: 3, AccountEvery: 5 * time.Second, AccountBurst: 4,
}

func openBench(t *testing.T, path string) *bench {
	t.Helper()
	store, err := gatewaysql.Open(t.Context(), gatewaysql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return benchOf(t, store)
}

// everywhere runs a test on an empty database of each kind.
func everywhere(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, d := range gatewaytest.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			test(t, benchOf(t, d.Open(t)))
		})
	}
}

func benchOf(t *testing.T, store *gatewaysql.Store) *bench {
	t.Helper()
	b := &bench{
		store: store, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		bus: &bus{}, hashes: &countingHasher{}, log: &bytes.Buffer{},
	}
	var err error
	b.Service, err = accounts.New(accounts.Config{
		Store: store.Accounts(), Bus: b.bus, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
		Now: b.clock.Now, Passwords: b.hashes, Throttle: throttle, OrgTurns: installationTurns,
		Targets: func(ctx context.Context) ([]string, error) {
			if b.targets == nil {
				return []string{target, "other"}, nil
			}
			return b.targets(ctx)
		},
		LimitsChanged: func(ctx context.Context, orgID string) {
			if b.changed != nil {
				b.changed(ctx, orgID)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withAdmin sets the installation up and gives the admin's session and actor.
func (b *bench) withAdmin(t *testing.T) (accounts.Session, gateway.Actor) {
	t.Helper()
	token, err := b.SetupLink(t.Context())
	if err != nil || token == "" {
		t.Fatalf("SetupLink: %q, %v", token, err)
	}
	session, err := b.Setup(t.Context(), accounts.SetupRequest{
		Token: token, Name: "Ada", Email: adminEmail, Password: goodPassword, Address: address,
	})
	if err != nil {
		t.Fatal(err)
	}
	return session, b.actor(t, session.Secret)
}

func (b *bench) actor(t *testing.T, secret string) gateway.Actor {
	t.Helper()
	actor, err := b.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return actor
}

func (b *bench) login(t *testing.T, email, password, from string) (accounts.Session, error) {
	t.Helper()
	return b.Login(t.Context(), accounts.LoginRequest{Email: email, Password: password, Address: from})
}

func (b *bench) actions(t *testing.T, actor gateway.Actor) []gateway.AuditAction {
	t.Helper()
	entries, err := b.Audit(t.Context(), actor, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]gateway.AuditAction, len(entries))
	for i, e := range entries {
		list[len(entries)-1-i] = e.Action
	}
	return list
}

func wantCode(t *testing.T, err error, code wire.Code) {
	t.Helper()
	if wire.CodeOf(err) != code {
		t.Helper()
		t.Fatalf("error %v, want code %q", err, code)
	}
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bus remembers which topics were told.
type bus struct {
	mu     sync.Mutex
	topics []string
}

func (b *bus) Publish(topic string, _ gateway.Push) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics = append(b.topics, topic)
}

func (b *bus) Subscribe(string, func(gateway.Push)) func() { return func() {} }

func (b *bus) told(topic string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, have := range b.topics {
		if have == topic {
			return true
		}
	}
	return false
}

// countingHasher is argon2id with a count, and with little memory: the race
// detector makes the real one slow. Its parameters have a test of their own.
type countingHasher struct {
	verified atomic.Int32
	hashed   atomic.Int32
}

func (h *countingHasher) Verify(_ context.Context, password, hash string) (bool, error) {
	h.verified.Add(1)
	return argon2id.ComparePasswordAndHash(password, hash)
}

func (h *countingHasher) Hash(_ context.Context, password string) (string, error) {
	h.hashed.Add(1)
	return argon2id.CreateHash(password, &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
}

// readFolder is the content of all files of a folder, write-ahead log included.
func readFolder(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}
