// Package enroll decides which relay hosts on other machines may link. It owns their
// invitations and credentials, and tells the registry which of them there are.
//
// Invariants:
//   - A host's id is its own target ref, for good. While it is not revoked nobody else
//     gets a link under it (RH45); the id of the host inside the gateway is taken.
//   - The gateway learns and keeps of a host what wire.HostJoin holds, and no secret:
//     public keys, and hashes of tokens that work once and for at most 15 minutes
//     (RH46).
//   - An invitation is spent in the transaction that stores its host. The same join
//     again has the same answer, so a host whose answer was lost asks again.
//   - A host links with a signature over the gateway's id, its own id and a nonce that
//     is used once and is 60 s old at most. An unknown host and a wrong signature are
//     answered alike; only who holds the key learns that a host is revoked.
//   - A revocation ends the host's link at once, and keeps one that was let in a
//     moment before from being used (see Admit).
//   - Hosts serve the whole installation: who runs it manages them (Config.Governs).
//
// Every change within the process is made, and told to the registry, under one lock,
// in that order. Changes of the command line beside a running server are seen by Run,
// which reads all hosts every 2 s and tells of what differs, with the same code. The
// service starts no goroutine.
package enroll

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
)

// Links are the hosts that may link, as the one who serves them sees it. It is called
// by one goroutine at a time, in the order of the changes.
type Links interface {
	// Register makes a host known, so that it may link.
	Register(h gateway.RelayHost)
	// Update tells the name, the labels and whether it drains of a registered host.
	Update(h gateway.RelayHost)
	// Revoke ends the link of a host, if it has one, and forgets the host. What it
	// still owed ends visibly, also after an error.
	Revoke(ctx context.Context, hostID, reason string) error
	// AdminHosts lists the registered hosts, embedded ones too.
	AdminHosts(ctx context.Context, actor gateway.Actor) ([]gateway.AdminHost, error)
}

// Config is what a Service needs. Store and Governs are required.
type Config struct {
	Store gateway.HostStore
	// Links is nil on the command line: a server beside it notices by itself.
	Links Links
	// Embedded are the ids of hosts that need no credential; nobody joins under one.
	Embedded []string
	// Governs tells whether the actor may manage hosts.
	Governs func(ctx context.Context, actor gateway.Actor) (bool, error)
	// Throttle counts an attempt to join of a client address, and refuses one too many
	// with rate_limited; nil never does.
	Throttle func(ctx context.Context, address string) error
	// Now is the clock of all that is stored and of nonces; nil is time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Service knows which hosts may link.
type Service struct {
	store     gateway.HostStore
	links     Links
	embedded  []string
	governs   func(ctx context.Context, actor gateway.Actor) (bool, error)
	throttle  func(ctx context.Context, address string) error
	now       func() time.Time
	log       *slog.Logger
	gatewayID string
	nonces    *nonces
	decoy     ed25519.PublicKey // that signatures of unknown hosts are compared with

	// mu is held over each change and over telling Links of it, so that Links hears of
	// changes in their order.
	mu    sync.Mutex
	known map[string]gateway.RelayHost // what Links was told; guarded by mu
	gone  map[string]bool              // revoked hosts that Links was told of; guarded by mu

	admitting admissions
}

// New checks the configuration and reads the gateway's id. Start makes the stored
// hosts known.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Governs == nil {
		return nil, errors.New("enroll: Store and Governs are required")
	}
	if cfg.Links == nil {
		cfg.Links = noLinks{}
	}
	if cfg.Throttle == nil {
		cfg.Throttle = func(context.Context, string) error { return nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	id, err := cfg.Store.GatewayID(ctx, "gateway_"+uuid.NewString())
	if err != nil {
		return nil, fmt.Errorf("id of the gateway: %w", err)
	}
	decoy, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("decoy key: %w", err)
	}
	return &Service{
		store: cfg.Store, links: cfg.Links, embedded: cfg.Embedded, governs: cfg.Governs, throttle: cfg.Throttle,
		now: cfg.Now, log: cfg.Logger, gatewayID: id, nonces: newNonces(), decoy: decoy,
		known: map[string]gateway.RelayHost{}, gone: map[string]bool{},
	}, nil
}

// newID is a UUIDv7: ids sort by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// noLinks are the links of the command line: none.
type noLinks struct{}

func (noLinks) Register(gateway.RelayHost)                   {}
func (noLinks) Update(gateway.RelayHost)                     {}
func (noLinks) Revoke(context.Context, string, string) error { return nil }

func (noLinks) AdminHosts(context.Context, gateway.Actor) ([]gateway.AdminHost, error) {
	return nil, nil
}
