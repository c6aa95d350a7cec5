package gateway

import "time"

// EntitlementStatus says whether an org may start turns at all.
type EntitlementStatus string

// The states of an entitlement (decisions §2.17).
const (
	EntitlementActive    EntitlementStatus = "active"
	EntitlementSuspended EntitlementStatus = "suspended"
)

// Entitlement is what an org may spend. A suspended org starts no turn at all;
// Credits are for metered routes alone, and nil is without limit.
type Entitlement struct {
	Status  EntitlementStatus
	Credits *int64
}

// Limits bound the turns of an org, or those of one member; 0 is no limit, and for
// the concurrent turns of an org the installation's default.
type Limits struct {
	ConcurrentTurns int // at the same time
	DailyTurns      int // started in a day (UTC)
}

// OrgLimits are the limits of an org as a whole, and of each member who has none
// of their own.
type OrgLimits struct {
	Limits
	Member Limits
}

// Member is an account as the admins of its org see it. Limits is nil for one
// with the org's own; DisabledAt is zero while the member may log in.
type Member struct {
	Account
	CreatedAt  time.Time
	DisabledAt time.Time
	Limits     *Limits
}

// Invitation lets one person join an org, once. Its secret is known only to the
// bearer of its link.
type Invitation struct {
	ID         string
	OrgID      string
	Email      string
	Role       Role
	SecretHash string // SHA-256 of the secret, hex
	CreatedBy  string // account, "" for the command line
	CreatedAt  time.Time
	ExpiresAt  time.Time
}
