-- Who somebody is: orgs, accounts, credentials, the setup link, the audit log.
-- Moments are milliseconds since 1970; 0 is "not". Secrets stand here as hashes.

-- +goose Up

CREATE TABLE installation (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    epoch TEXT NOT NULL
);

-- At most one row: the link for which no admin exists yet.
CREATE TABLE setup_links (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    secret_hash TEXT NOT NULL,
    created_at  BIGINT NOT NULL
);

CREATE TABLE orgs (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
);

-- One row for each org, made with it (decisions on entitlement): credits NULL is
-- without limit. A suspended org starts no turn at all.
CREATE TABLE entitlements (
    org_id     TEXT PRIMARY KEY REFERENCES orgs (id),
    status     TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
    credits    BIGINT,
    updated_at BIGINT NOT NULL
);

-- Limits of an org and of each member of it; 0 is none. A member without a row of
-- its own has the org's member_ columns.
CREATE TABLE org_limits (
    org_id           TEXT PRIMARY KEY REFERENCES orgs (id),
    concurrent_turns INTEGER NOT NULL DEFAULT 0,
    daily_turns      INTEGER NOT NULL DEFAULT 0,
    member_concurrent_turns INTEGER NOT NULL DEFAULT 0,
    member_daily_turns      INTEGER NOT NULL DEFAULT 0,
    updated_at       BIGINT NOT NULL
);

CREATE TABLE accounts (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL REFERENCES orgs (id),
    email         TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    role          TEXT NOT NULL CHECK (role IN ('admin', 'member')),
    password_hash TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    disabled_at   BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX accounts_by_org ON accounts (org_id, created_at);

CREATE TABLE member_limits (
    account_id       TEXT PRIMARY KEY REFERENCES accounts (id),
    concurrent_turns INTEGER NOT NULL DEFAULT 0,
    daily_turns      INTEGER NOT NULL DEFAULT 0,
    updated_at       BIGINT NOT NULL
);

-- An invitation is used once: accepted_by is the account that it made.
CREATE TABLE invitations (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES orgs (id),
    email       TEXT NOT NULL,
    role        TEXT NOT NULL CHECK (role IN ('admin', 'member')),
    secret_hash TEXT NOT NULL UNIQUE,
    created_by  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    accepted_at BIGINT NOT NULL DEFAULT 0,
    accepted_by TEXT NOT NULL DEFAULT '',
    revoked_at  BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX invitations_by_org ON invitations (org_id, created_at);

CREATE TABLE credentials (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL CHECK (kind IN ('session', 'token')),
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    secret_hash TEXT NOT NULL UNIQUE,
    name        TEXT NOT NULL,
    scopes      TEXT NOT NULL, -- of a token, joined by spaces
    created_at  BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX credentials_by_account ON credentials (account_id, ended_at);
CREATE INDEX credentials_by_end ON credentials (ended_at);

-- Append-only. Ids are UUIDv7, so their order is that of time.
CREATE TABLE audit (
    id         TEXT PRIMARY KEY,
    at         BIGINT NOT NULL,
    org_id     TEXT NOT NULL,
    account_id TEXT NOT NULL,
    action     TEXT NOT NULL,
    target     TEXT NOT NULL,
    address    TEXT NOT NULL,
    detail     TEXT NOT NULL
);

CREATE INDEX audit_by_org ON audit (org_id, id);

-- +goose Down

DROP TABLE audit;
DROP TABLE credentials;
DROP TABLE invitations;
DROP TABLE member_limits;
DROP TABLE accounts;
DROP TABLE org_limits;
DROP TABLE entitlements;
DROP TABLE orgs;
DROP TABLE setup_links;
DROP TABLE installation;
