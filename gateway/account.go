package gateway

import "time"

// Role is what an account may do in its org.
type Role string

// The roles.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Scope is what a token may be used for; a browser session has all that its
// role allows.
type Scope string

// The scopes of a token.
const (
	ScopeChat  Scope = "chat"
	ScopeAdmin Scope = "admin"
	// ScopeControl lets a program drive runs at relay hosts (GET /ws/control), as its
	// account and at the targets that its token names.
	ScopeControl Scope = "relay:control"
)

// Actor is who asks: every service call takes one, and every query is bound to
// its AccountID and OrgID.
type Actor struct {
	AccountID string
	OrgID     string
	Role      Role
	Scopes    []Scope
	// Targets are the hosts, by their target refs, at which the actor may drive runs
	// (ScopeControl).
	Targets []string
	// CredentialID names the session or token behind the request, so that its
	// sockets can be closed when it ends.
	CredentialID string
	// ExpiresAt is when the credential ends; zero means that nothing is known.
	ExpiresAt time.Time
	// Origin is the origin of the site that the request came through, for links in
	// what is stored for it (AD6); "" is the default one.
	Origin string
}

// May tells whether the actor holds a scope.
func (a Actor) May(s Scope) bool {
	for _, have := range a.Scopes {
		if have == s {
			return true
		}
	}
	return false
}

// Account is a person, as shown to themselves and to admins.
type Account struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
	OrgID string `json:"orgId"`
	Role  Role   `json:"role"`
}
