-- +goose Up

-- The relay host's state: who a scope belongs to, its bindings, the reservations
-- of its turns, and the journal of envelopes that no receiver has acknowledged.
-- Times are milliseconds since 1970. What would make the state untrusted is
-- forbidden here; the host reads these rows by index and only as it needs them.

CREATE TABLE relay_schema (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
);

INSERT INTO relay_schema (id, version) VALUES (1, 2);

-- A scope has a row once an account is bound to it, so that whatever refers to a
-- scope has an owner.
CREATE TABLE relay_scopes (
    scope_key         TEXT    PRIMARY KEY CHECK (length(scope_key) = 70),
    target_ref        TEXT    NOT NULL CHECK (length(target_ref) BETWEEN 1 AND 512),
    session_id        TEXT    NOT NULL CHECK (length(session_id) BETWEEN 1 AND 512),
    owner_fingerprint TEXT    NOT NULL CHECK (length(owner_fingerprint) = 64),
    next_ordinal      INTEGER NOT NULL DEFAULT 1 CHECK (next_ordinal >= 1),
    created_at        INTEGER NOT NULL,
    UNIQUE (target_ref, session_id)
);

CREATE INDEX relay_scopes_newest ON relay_scopes (created_at, scope_key);

CREATE TABLE relay_bindings (
    scope_key         TEXT    NOT NULL REFERENCES relay_scopes (scope_key),
    binding_id        TEXT    NOT NULL CHECK (length(binding_id) BETWEEN 1 AND 240),
    ordinal           INTEGER NOT NULL CHECK (ordinal >= 1),
    run_id            TEXT    NOT NULL CHECK (length(run_id) BETWEEN 1 AND 240),
    virtual_thread_id TEXT    NOT NULL CHECK (length(virtual_thread_id) = 37),
    native_thread_id  TEXT    NOT NULL UNIQUE CHECK (length(native_thread_id) BETWEEN 5 AND 80),
    model             TEXT    NOT NULL CHECK (length(model) BETWEEN 1 AND 256),
    model_provider    TEXT    NOT NULL CHECK (length(model_provider) BETWEEN 1 AND 128),
    model_provider_id TEXT    NOT NULL CHECK (length(model_provider_id) BETWEEN 1 AND 128),
    first_operation   TEXT    NOT NULL CHECK (length(first_operation) = 64),
    system_prompt     TEXT    CHECK (length(system_prompt) = 64),
    continued_from    TEXT,
    projected_seq     INTEGER NOT NULL DEFAULT 0 CHECK (projected_seq >= 0),
    created_at        INTEGER NOT NULL,
    PRIMARY KEY (scope_key, binding_id),
    UNIQUE (scope_key, virtual_thread_id),
    UNIQUE (scope_key, ordinal),
    FOREIGN KEY (scope_key, continued_from) REFERENCES relay_bindings (scope_key, binding_id)
);

CREATE TABLE relay_turns (
    scope_key             TEXT    NOT NULL,
    binding_id            TEXT    NOT NULL,
    turn_id               TEXT    NOT NULL CHECK (length(turn_id) = 35),
    run_id                TEXT    NOT NULL CHECK (length(run_id) BETWEEN 1 AND 240),
    native_turn_id        TEXT    NOT NULL CHECK (length(native_turn_id) BETWEEN 5 AND 80),
    operation_fingerprint TEXT    NOT NULL CHECK (length(operation_fingerprint) = 64),
    request_fingerprint   TEXT    NOT NULL CHECK (length(request_fingerprint) = 64),
    terminal_projected    INTEGER NOT NULL DEFAULT 0 CHECK (terminal_projected IN (0, 1)),
    start_rejected        INTEGER NOT NULL DEFAULT 0 CHECK (start_rejected IN (0, 1)),
    reserved_at           INTEGER NOT NULL,
    settled_at            INTEGER,
    CHECK (terminal_projected = 1 OR start_rejected = 0),
    CHECK ((terminal_projected = 1) = (settled_at IS NOT NULL)),
    PRIMARY KEY (scope_key, binding_id, turn_id),
    UNIQUE (scope_key, binding_id, operation_fingerprint),
    UNIQUE (scope_key, binding_id, native_turn_id),
    FOREIGN KEY (scope_key, binding_id) REFERENCES relay_bindings (scope_key, binding_id)
);

-- How a start finds what is not settled yet, whatever else is stored.
CREATE INDEX relay_turns_unsettled ON relay_turns (scope_key) WHERE terminal_projected = 0;

-- How a steer finds its turn, which it names without a binding.
CREATE INDEX relay_turns_virtual ON relay_turns (scope_key, turn_id);

CREATE TABLE relay_runs (
    scope_key TEXT    NOT NULL REFERENCES relay_scopes (scope_key),
    run_id    TEXT    NOT NULL CHECK (length(run_id) BETWEEN 1 AND 240),
    cursor    INTEGER NOT NULL CHECK (cursor BETWEEN 0 AND 9007199254740991),
    PRIMARY KEY (scope_key, run_id)
);

CREATE TABLE relay_journal (
    scope_key TEXT    NOT NULL REFERENCES relay_scopes (scope_key),
    run_id    TEXT    NOT NULL CHECK (length(run_id) BETWEEN 1 AND 240),
    seq       INTEGER NOT NULL CHECK (seq BETWEEN 1 AND 9007199254740991),
    integrity INTEGER NOT NULL CHECK (integrity IN (0, 1)),
    envelope  TEXT    NOT NULL,
    PRIMARY KEY (scope_key, run_id, seq)
);

CREATE INDEX relay_journal_integrity ON relay_journal (scope_key, run_id, seq) WHERE integrity = 1;
