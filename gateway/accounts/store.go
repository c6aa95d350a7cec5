package accounts

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/gateway"
)

// Store keeps accounts. Each method is one transaction and is durable when it
// returns. What does not exist, or belongs to another org, is an error with
// wire.CodeNotFound.
type Store interface {
	OrgStore
	MemberStore
	InvitationStore

	// Epoch gives the epoch of the installation; the first call makes it fresh.
	Epoch(ctx context.Context, fresh string) (string, error)

	HasAdmin(ctx context.Context) (bool, error)
	// PutSetupLink replaces the setup link, unless an admin exists: then false.
	PutSetupLink(ctx context.Context, secretHash string, at time.Time) (bool, error)
	SetupLinkStands(ctx context.Context, secretHash string) (bool, error)
	// Setup uses up the setup link and creates the admin, in the org fresh unless
	// one exists. If the link does not stand or an admin exists:
	// gateway.CodeSetupLinkInvalid.
	Setup(ctx context.Context, secretHash string, fresh gateway.Org, admin gateway.StoredAccount, audit gateway.AuditEntry) (gateway.Account, error)

	// CreateAccount stores an account. With an empty OrgID it joins the org named
	// wanted, or the first one for ""; where no org exists at all, fresh is
	// created. An admin voids the setup link. An email in use:
	// gateway.ErrEmailTaken.
	CreateAccount(ctx context.Context, acc gateway.StoredAccount, wanted string, fresh gateway.Org, audit gateway.AuditEntry) (gateway.Account, error)
	AccountByEmail(ctx context.Context, email string) (gateway.StoredAccount, error)
	// AccountByID looks in one org, or everywhere for "".
	AccountByID(ctx context.Context, orgID, id string) (gateway.StoredAccount, error)
	// Accounts lists an org, or all for "", oldest first.
	Accounts(ctx context.Context, orgID string) ([]gateway.StoredAccount, error)
	// SetPassword changes the password and ends all credentials of the account
	// but keep; it gives the ids of those ended.
	SetPassword(ctx context.Context, accountID, passwordHash, keep string, audit gateway.AuditEntry) ([]string, error)

	// SetName changes what an account is called.
	SetName(ctx context.Context, accountID, name string, audit gateway.AuditEntry) error
	// StartCredential stores c and ends the session replaces of the same account
	// or another, if it is not "". A disabled account is not_found.
	StartCredential(ctx context.Context, c gateway.Credential, replaces string, audit gateway.AuditEntry) error
	// CredentialBySecret does not find those of a disabled account.
	CredentialBySecret(ctx context.Context, kind gateway.CredentialKind, secretHash string) (gateway.Credential, gateway.Account, error)
	// Credentials lists those of an org that did not end, or all for "", newest
	// first.
	Credentials(ctx context.Context, orgID string, kind gateway.CredentialKind) ([]gateway.Credential, error)
	// AccountCredentials lists those of an account that did not end, newest first.
	AccountCredentials(ctx context.Context, accountID string) ([]gateway.Credential, error)
	TouchCredential(ctx context.Context, id string, at time.Time) error
	// EndCredential ends one of an org, or any for ""; one that ended already is
	// not found.
	EndCredential(ctx context.Context, orgID, id string, audit gateway.AuditEntry) error
	// SweepCredentials ends sessions last seen before idleSince and whatever
	// expired by now, and forgets what ended before forget.
	SweepCredentials(ctx context.Context, now, idleSince, forget time.Time) error
	// EndedSince lists the credentials that ended at since or later.
	EndedSince(ctx context.Context, since time.Time) ([]string, error)

	AppendAudit(ctx context.Context, entry gateway.AuditEntry) error
	// Audit lists the newest entries of an org and of no org, older than before
	// if that is not "".
	Audit(ctx context.Context, orgID, before string, limit int) ([]gateway.AuditEntry, error)
}

// OrgStore keeps orgs with what they may spend.
type OrgStore interface {
	Org(ctx context.Context, id string) (gateway.Org, error)
	OrgByName(ctx context.Context, name string) (gateway.Org, error)
	Orgs(ctx context.Context) ([]gateway.Org, error)
	// CreateOrg stores an org with an unlimited entitlement and without limits. A
	// name in use: gateway.ErrOrgTaken.
	CreateOrg(ctx context.Context, org gateway.Org, audit gateway.AuditEntry) error
	Entitlement(ctx context.Context, orgID string) (gateway.Entitlement, error)
	SetEntitlement(ctx context.Context, orgID string, e gateway.Entitlement, audit gateway.AuditEntry) error
	OrgLimits(ctx context.Context, orgID string) (gateway.OrgLimits, error)
	// SetOrgLimits and SetMemberDefaults replace the two halves, each alone.
	SetOrgLimits(ctx context.Context, orgID string, l gateway.Limits, audit gateway.AuditEntry) error
	SetMemberDefaults(ctx context.Context, orgID string, l gateway.Limits, audit gateway.AuditEntry) error
	// Standing gives what admission would see of an account now, with the turns
	// started since a moment.
	Standing(ctx context.Context, orgID, accountID string, since time.Time) (gateway.Admission, gateway.Load, error)
}

// MemberStore changes members of an org, or of any for an orgID of "". The audit
// entry gets the member's org. What is already so is not changed and not audited.
type MemberStore interface {
	Members(ctx context.Context, orgID string) ([]gateway.Member, error)
	// SetRole and DisableMember end all credentials of a member who may do less
	// afterwards, revoke the invitations that the member gave out, and give the ids
	// of the credentials ended. Where an org would be left without an admin who can
	// log in: gateway.CodeLastAdmin. Of two at once the second sees what the first
	// did.
	SetRole(ctx context.Context, orgID, accountID string, role gateway.Role, audit gateway.AuditEntry) ([]string, error)
	DisableMember(ctx context.Context, orgID, accountID string, audit gateway.AuditEntry) ([]string, error)
	EnableMember(ctx context.Context, orgID, accountID string, audit gateway.AuditEntry) error
	// SetMemberLimits replaces a member's own limits, which nil takes away, and
	// gives the member's org.
	SetMemberLimits(ctx context.Context, orgID, accountID string, l *gateway.Limits, audit gateway.AuditEntry) (string, error)
}

// InvitationStore keeps invitations.
type InvitationStore interface {
	// PutInvitation stores an invitation, of which at most one stands for an email
	// in an org: earlier ones are revoked. With an empty OrgID it is for the org that
	// CreateAccount would join. An email with an account: gateway.ErrEmailTaken.
	PutInvitation(ctx context.Context, inv gateway.Invitation, wanted string, fresh gateway.Org, audit gateway.AuditEntry) (gateway.Invitation, error)
	// Invitations lists those of an org, or all for "", that were neither used nor
	// revoked, newest first.
	Invitations(ctx context.Context, orgID string) ([]gateway.Invitation, error)
	// InvitationBySecret finds one that can be used now.
	InvitationBySecret(ctx context.Context, secretHash string, now time.Time) (gateway.Invitation, error)
	RevokeInvitation(ctx context.Context, orgID, id string, audit gateway.AuditEntry) error
	// AcceptInvitation uses up an invitation and creates the account with its org,
	// email and role. One that cannot be used: gateway.CodeInvitationInvalid. An
	// email with an account: gateway.ErrEmailTaken, and the invitation stands.
	AcceptInvitation(ctx context.Context, secretHash string, acc gateway.StoredAccount, audit gateway.AuditEntry) (gateway.Account, error)
}
