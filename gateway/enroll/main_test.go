package enroll_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	address  = "192.0.2.7"
	embedded = "target_of_the_gateway"
)

// bench is a service on a real store, with a clock that the test moves, and links that
// write down what they are told.
type bench struct {
	*enroll.Service
	t        *testing.T
	place    *gatewaytest.Place
	store    *gatewaysql.Store
	clock    *clock
	links    *links
	log      *bytes.Buffer
	throttle func(ctx context.Context, address string) error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, gatewaytest.Databases(t, gatewaytest.SQLite3)[0].New(t))
}

// everywhere runs a test on an empty database of each kind.
func everywhere(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, d := range gatewaytest.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			test(t, benchOn(t, d.New(t)))
		})
	}
}

func benchOn(t *testing.T, place *gatewaytest.Place) *bench {
	t.Helper()
	b := &bench{
		t: t, place: place, store: place.Open(t), log: &bytes.Buffer{},
		clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		links: &links{told: make(chan string, 1000)},
	}
	b.Service = b.service(b.links)
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// service makes another service on the same database: that of the next process, or,
// without links, that of the command line.
func (b *bench) service(l enroll.Links) *enroll.Service {
	b.t.Helper()
	s, err := enroll.New(b.t.Context(), enroll.Config{
		Store: b.store.Hosts(), Links: l, Embedded: []string{embedded}, Now: b.clock.Now,
		Logger: slog.New(slog.NewTextHandler(b.log, nil)),
		Governs: func(_ context.Context, actor gateway.Actor) (bool, error) {
			return actor.OrgID == "" || actor.OrgID == "first", nil
		},
		Throttle: func(ctx context.Context, address string) error {
			if b.throttle == nil {
				return nil
			}
			return b.throttle(ctx, address)
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// admin is an admin of the first org.
var admin = gateway.Actor{
	AccountID: "ada", OrgID: "first", Role: gateway.RoleAdmin, Scopes: []gateway.Scope{gateway.ScopeChat, gateway.ScopeAdmin},
}

func (b *bench) invite() string {
	b.t.Helper()
	token, _, err := b.Invite(b.t.Context(), admin, enroll.NewInvite{})
	if err != nil {
		b.t.Fatal(err)
	}
	return token
}

// machine is a host with its key.
type machine struct {
	id  string
	key ed25519.PrivateKey
}

func newMachine(t *testing.T, id string) machine {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return machine{id, key}
}

func (m machine) request(token string) wire.HostJoin {
	public := m.key.Public().(ed25519.PublicKey)
	return wire.HostJoin{
		Token: token, HostID: m.id, PublicKey: base64.RawURLEncoding.EncodeToString(public), Name: "Box " + m.id, Version: "1.0",
	}
}

// header signs a nonce.
func (m machine) header(gatewayID, nonce string) string {
	return wire.HostAuthorization{
		HostID: m.id, Nonce: nonce, Signature: ed25519.Sign(m.key, wire.HostLinkProof(gatewayID, m.id, nonce)),
	}.Header()
}

// joined is a new host that joined.
func (b *bench) joined(id string) machine {
	b.t.Helper()
	m := newMachine(b.t, id)
	b.join(m)
	return m
}

func (b *bench) join(m machine) wire.HostJoined {
	b.t.Helper()
	answer, err := b.Join(b.t.Context(), address, m.request(b.invite()))
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// admit has a host ask for a nonce and come with it.
func (b *bench) admit(m machine) (enroll.Admission, error) {
	b.t.Helper()
	c := b.Challenge(m.id)
	return b.Admit(b.t.Context(), m.header(c.GatewayID, c.Nonce))
}

// mayLink fails unless the host is let in, or refused with a code.
func (b *bench) mayLink(m machine, want wire.Code) {
	b.t.Helper()
	a, err := b.admit(m)
	if wire.CodeOf(err) != want {
		b.t.Errorf("host %s: %v, want code %q", m.id, err, want)
	}
	if err == nil {
		a.Release()
	}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) code(err error, want wire.Code) {
	b.t.Helper()
	if wire.CodeOf(err) != want {
		b.t.Errorf("error %v, want code %q", err, want)
	}
}

// heard gives what the links were told since the last time.
func (b *bench) heard() (all []string) {
	for {
		select {
		case s := <-b.links.told:
			all = append(all, s)
		default:
			return all
		}
	}
}

// hears fails unless the links were told exactly this.
func (b *bench) hears(want ...string) {
	b.t.Helper()
	if got := b.heard(); !slices.Equal(got, want) {
		b.t.Errorf("the registry was told %q, want %q", got, want)
	}
}

// links write down what they are told.
type links struct {
	told chan string

	mu   sync.Mutex
	rows []gateway.AdminHost
	fail error // of Revoke
}

func (l *links) say(what string, h gateway.RelayHost) {
	words := []string{what, h.ID}
	if what != "revoke" {
		words = append(words, h.Name)
		if len(h.Labels) > 0 {
			words = append(words, strings.Join(h.Labels, "+"))
		}
	}
	if !h.DrainedAt.IsZero() {
		words = append(words, "draining")
	}
	l.told <- strings.Join(words, " ")
}

func (l *links) Register(h gateway.RelayHost) { l.say("register", h) }
func (l *links) Update(h gateway.RelayHost)   { l.say("update", h) }

func (l *links) Revoke(_ context.Context, id, reason string) error {
	if reason == "" {
		return fmt.Errorf("no reason")
	}
	l.say("revoke", gateway.RelayHost{ID: id})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fail
}

func (l *links) AdminHosts(context.Context, gateway.Actor) ([]gateway.AdminHost, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows), nil
}

func (l *links) show(rows ...gateway.AdminHost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = rows
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

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
