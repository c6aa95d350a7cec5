package gateway

import (
	"context"
	"errors"
	"time"
)

// RelayHost is a host on another machine, as it is stored. The embedded host has no
// row: it needs no credential.
type RelayHost struct {
	// ID is the host's own target ref, for good: a host that comes back under another
	// one is another host (RH45).
	ID        string
	Name      string // as admins see it; the host proposed it
	PublicKey []byte // ed25519, 32 bytes
	// Labels are words that placement looks for, such as "gpu" or "site=berlin".
	Labels    []string
	Version   string // what it last said of itself
	JoinedBy  string // account that made the invitation
	JoinedAt  time.Time
	SeenAt    time.Time // when it was last linked, to about a minute; zero: never
	DrainedAt time.Time // zero: takes new turns
	RevokedAt time.Time // zero: may link
}

// HostInvite lets one host join, once and until it expires.
type HostInvite struct {
	ID         string
	SecretHash string // SHA-256 of the token, hex
	Name       string // "" leaves it to the host
	Labels     []string
	OrgID      string
	CreatedBy  string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	UsedAt     time.Time // zero: not used
	HostID     string    // of the host that used it
}

// What stores of hosts tell.
var (
	// ErrInviteSpent tells that an invitation is unknown, expired or used.
	ErrInviteSpent = errors.New("the invitation is not valid any more")
	// ErrHostKey tells that a host of this id joined with another key and is not
	// revoked.
	ErrHostKey = errors.New("another host has this id")
	// ErrHostRevoked tells that a revoked host joined with the key that was revoked.
	ErrHostRevoked = errors.New("the key of this host was revoked")
)

// HostStore keeps the hosts on other machines. Each change and its audit entry are
// one transaction.
type HostStore interface {
	// GatewayID gives the id under which hosts know this installation; the first call
	// makes it fresh. It never changes.
	GatewayID(ctx context.Context, fresh string) (string, error)
	CreateHostInvite(ctx context.Context, i HostInvite, a AuditEntry) error
	// HostInvites lists those that are not used and not expired, newest first.
	HostInvites(ctx context.Context, now time.Time) ([]HostInvite, error)
	// RevokeHostInvite ends one that could be used; ErrNoRow if there is none.
	RevokeHostInvite(ctx context.Context, id string, now time.Time, a AuditEntry) error
	// ForgetHostInvites removes the invitations that were spent, revoked or had expired
	// before a moment. One whose host is still here with the key that it joined with
	// stays, for the host that asks again.
	ForgetHostInvites(ctx context.Context, endedBefore time.Time) error
	// JoinHost spends an invitation and stores its host, with the name and the labels
	// of the invitation where it has some. The same invitation, host and key again
	// give the stored host once more: a host whose answer was lost asks again. A live
	// host that joins with another invitation and its own key spends it and stays as it
	// is; a revoked one joins again with a new key. The entry gets the org and the
	// account of the invitation, and is written when something changed. Errors, after
	// which the invitation stands: ErrInviteSpent, ErrHostKey, ErrHostRevoked.
	JoinHost(ctx context.Context, secretHash string, h RelayHost, now time.Time, a AuditEntry) (RelayHost, error)
	// RelayHosts lists all, revoked ones too, in the order in which they joined.
	RelayHosts(ctx context.Context) ([]RelayHost, error)
	// RelayHost reads one; ErrNoRow if there is none.
	RelayHost(ctx context.Context, id string) (RelayHost, error)
	// ChangeHost alters name, labels, DrainedAt and RevokedAt of a host that is not
	// revoked. ErrNoRow if there is none.
	ChangeHost(ctx context.Context, id string, alter func(*RelayHost), a AuditEntry) (RelayHost, error)
	// SawHost notes when a host was linked, and its version unless that is "". Time
	// never runs back.
	SawHost(ctx context.Context, id, version string, at time.Time) error
}
