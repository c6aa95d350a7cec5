-- Relay hosts on other machines. Of their credentials only public keys stand here,
-- and hashes of the tokens with which they join. Moments are milliseconds since
-- 1970; 0 is "not".

-- +goose Up

-- The id under which hosts know this installation, part of what they sign.
CREATE TABLE gateway_identity (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    gateway_id TEXT NOT NULL
);

-- The id of a host is its target ref, for good. A revoked host keeps its row; with a
-- new invitation and a new key it takes it up again.
CREATE TABLE relay_hosts (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    public_key TEXT NOT NULL, -- ed25519, unpadded base64url
    labels     TEXT NOT NULL, -- joined by spaces
    version    TEXT NOT NULL,
    joined_by  TEXT NOT NULL,
    joined_at  BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL DEFAULT 0,
    drained_at BIGINT NOT NULL DEFAULT 0,
    revoked_at BIGINT NOT NULL DEFAULT 0
);

-- An invitation is used once: host_id and host_key are of the host that did.
CREATE TABLE host_invites (
    id          TEXT PRIMARY KEY,
    secret_hash TEXT NOT NULL UNIQUE,
    name        TEXT NOT NULL,
    labels      TEXT NOT NULL,
    org_id      TEXT NOT NULL,
    created_by  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    used_at     BIGINT NOT NULL DEFAULT 0,
    host_id     TEXT NOT NULL DEFAULT '',
    host_key    TEXT NOT NULL DEFAULT '',
    revoked_at  BIGINT NOT NULL DEFAULT 0
);

-- Of a token with the scope relay:control: the targets that it reaches, joined by
-- spaces.
ALTER TABLE credentials ADD COLUMN targets TEXT NOT NULL DEFAULT '';

-- +goose Down

ALTER TABLE credentials DROP COLUMN targets;
DROP TABLE host_invites;
DROP TABLE relay_hosts;
DROP TABLE gateway_identity;
