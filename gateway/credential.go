package gateway

import (
	"errors"
	"time"
)

// Org is a body of accounts that share hosts, routes and policies.
type Org struct {
	ID        string
	Name      string
	CreatedAt time.Time
}

// ErrOrgTaken tells that another org has the name. Stores give it.
var ErrOrgTaken = errors.New("org name is in use")

// ErrEmailTaken tells that another account has the email. Stores give it.
var ErrEmailTaken = errors.New("email is in use")

// StoredAccount is an account with what only its store and package accounts see.
type StoredAccount struct {
	Account
	// PasswordHash is the argon2id string of the password.
	PasswordHash string
	CreatedAt    time.Time
	DisabledAt   time.Time // zero: may log in
}

// CredentialKind tells how a credential travels.
type CredentialKind string

// The kinds of credentials: a session stands behind a browser's cookie, a token
// in an Authorization header.
const (
	CredentialSession CredentialKind = "session"
	CredentialToken   CredentialKind = "token"
)

// Credential is a session or token as it is stored. The secret itself is known
// only to its bearer.
type Credential struct {
	// ID is public: it names the credential in lists, audit and topics.
	ID         string
	Kind       CredentialKind
	AccountID  string
	SecretHash string // SHA-256 of the secret, hex
	Name       string // of a token
	Scopes     []Scope
	Targets    []string // target refs, for ScopeControl
	CreatedAt  time.Time
	SeenAt     time.Time // last use, to about a minute
	ExpiresAt  time.Time // zero: never
	EndedAt    time.Time // zero: not ended by hand
}

// AuditEntry is one line of the audit log. It never holds a secret, nor text
// that a stranger typed.
type AuditEntry struct {
	ID        string
	At        time.Time
	OrgID     string // "" for what belongs to no org
	AccountID string // who acted; "" for a stranger or the command line
	Action    AuditAction
	Target    string // id of what was acted upon
	Address   string // client address, "" for the command line
	Detail    string
}

// AuditAction names what was done.
type AuditAction string

// The actions of the audit log.
const (
	AuditSetup           AuditAction = "setup"
	AuditLogin           AuditAction = "login"
	AuditLoginFailed     AuditAction = "login_failed"
	AuditLoginThrottled  AuditAction = "login_throttled"
	AuditLogout          AuditAction = "logout"
	AuditUserCreated     AuditAction = "user_created"
	AuditPasswordChanged AuditAction = "password_changed"
	AuditTokenCreated    AuditAction = "token_created"
	AuditRevoked         AuditAction = "credential_revoked"
	AuditOriginRefused   AuditAction = "origin_refused"
	AuditRenamed         AuditAction = "account_renamed"

	AuditOrgCreated          AuditAction = "org_created"
	AuditInvited             AuditAction = "invitation_created"
	AuditInvitationRevoked   AuditAction = "invitation_revoked"
	AuditJoined              AuditAction = "invitation_accepted"
	AuditRoleChanged         AuditAction = "role_changed"
	AuditMemberDisabled      AuditAction = "account_disabled"
	AuditMemberEnabled       AuditAction = "account_enabled"
	AuditOrgLimitsChanged    AuditAction = "org_limits_changed"
	AuditMemberLimitsChanged AuditAction = "member_limits_changed"
	AuditEntitlementChanged  AuditAction = "entitlement_changed"

	AuditTurnEnded      AuditAction = "turn_ended"
	AuditThreadReleased AuditAction = "thread_released"

	AuditHostInvited  AuditAction = "host_invited"
	AuditHostJoined   AuditAction = "host_joined"
	AuditHostRenamed  AuditAction = "host_renamed"
	AuditHostLabelled AuditAction = "host_labelled"
	AuditHostDrained  AuditAction = "host_drained"
	AuditHostResumed  AuditAction = "host_resumed"
	AuditHostRevoked  AuditAction = "host_revoked"
)
