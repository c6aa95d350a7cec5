-- +goose Up

-- The native runtime's records: threads, turns, items, operations, event ledger.
-- Times are milliseconds since 1970. Rules that must hold of every row are
-- constraints here, so that no program can store what another could not trust.

CREATE TABLE native_store (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    owner_id TEXT    NOT NULL CHECK (length(owner_id) BETWEEN 5 AND 80),
    next_seq INTEGER NOT NULL CHECK (next_seq >= 1)
);

CREATE TABLE native_threads (
    id                TEXT    PRIMARY KEY CHECK (length(id) BETWEEN 5 AND 80),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    model             TEXT    NOT NULL CHECK (model <> ''),
    model_provider    TEXT    NOT NULL CHECK (model_provider <> ''),
    model_provider_id TEXT    NOT NULL CHECK (model_provider_id <> ''),
    reasoning_effort  TEXT    NOT NULL,
    system_prompt     TEXT    NOT NULL,
    latest_turn_id    TEXT    REFERENCES native_turns (id) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE native_turns (
    id                  TEXT    PRIMARY KEY CHECK (length(id) BETWEEN 5 AND 80),
    thread_id           TEXT    NOT NULL REFERENCES native_threads (id),
    -- The one that it is in, or ended in: each steer that it takes begins another.
    round               INTEGER NOT NULL CHECK (round >= 1),
    status              TEXT    NOT NULL
        CHECK (status IN ('queued', 'in_progress', 'completed', 'failed', 'interrupted', 'canceled')),
    input_summary       TEXT    NOT NULL,
    model               TEXT    NOT NULL CHECK (model <> ''),
    model_provider      TEXT    NOT NULL CHECK (model_provider <> ''),
    model_provider_id   TEXT    NOT NULL CHECK (model_provider_id <> ''),
    billing_surface     TEXT    NOT NULL,
    billing_mode        TEXT    NOT NULL,
    reasoning_effort    TEXT    NOT NULL,
    max_output_tokens   INTEGER NOT NULL CHECK (max_output_tokens BETWEEN 0 AND 4294967295),
    created_at          INTEGER NOT NULL,
    -- Its turn.started; its deltas follow on it.
    started_seq         INTEGER NOT NULL UNIQUE REFERENCES native_events (seq) DEFERRABLE INITIALLY DEFERRED,
    interrupt_requested INTEGER NOT NULL DEFAULT 0 CHECK (interrupt_requested IN (0, 1)),
    ended_at            INTEGER,
    usage               TEXT,
    error               TEXT    NOT NULL DEFAULT '',
    response_id         TEXT    NOT NULL DEFAULT '',
    response_model      TEXT    NOT NULL DEFAULT '',
    -- The one turn.completed of the turn: there from the moment that it is final,
    -- and never before.
    completed_seq       INTEGER UNIQUE REFERENCES native_events (seq) DEFERRABLE INITIALLY DEFERRED,
    CHECK ((status IN ('queued', 'in_progress')) = (completed_seq IS NULL)),
    CHECK ((completed_seq IS NULL) = (ended_at IS NULL)),
    UNIQUE (thread_id, round)
);

-- One active turn a thread; also how recovery finds what a crash left behind.
CREATE UNIQUE INDEX native_turns_active ON native_turns (thread_id) WHERE completed_seq IS NULL;

-- The items of a round: what was asked, thought and answered. turn_id is null in
-- rounds that were copied from another thread. An item has the status of its
-- round: 'cut' is one that was cut short by the steer that is the next round. While a
-- round runs, the text of what streams stands in its events alone; it is gathered
-- here when the round ends.
CREATE TABLE native_items (
    id        TEXT    PRIMARY KEY CHECK (length(id) BETWEEN 5 AND 80),
    thread_id TEXT    NOT NULL REFERENCES native_threads (id),
    turn_id   TEXT    REFERENCES native_turns (id),
    round     INTEGER NOT NULL CHECK (round >= 1),
    kind      TEXT    NOT NULL CHECK (kind IN ('user_message', 'agent_message', 'agent_reasoning')),
    status    TEXT    NOT NULL
        CHECK (status IN ('in_progress', 'completed', 'cut', 'failed', 'interrupted', 'canceled')),
    text      TEXT    NOT NULL,
    -- Model and provider key that made it; reasoning goes back to no other.
    route     TEXT    NOT NULL,
    CHECK (turn_id IS NOT NULL OR status IN ('completed', 'cut', 'interrupted')),
    UNIQUE (thread_id, round, kind)
);

CREATE INDEX native_items_turn ON native_items (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE native_images (
    item_id TEXT    NOT NULL REFERENCES native_items (id),
    ordinal INTEGER NOT NULL,
    mime    TEXT    NOT NULL,
    data    TEXT    NOT NULL, -- base64, as it was received
    PRIMARY KEY (item_id, ordinal)
);

-- The steers that turns took, each once and for ever. round is the one that it began,
-- seq its turn.steered, shown how many bytes of answer the turn had streamed before.
-- The rest is what the provider reported of the response before it.
CREATE TABLE native_deliveries (
    delivery_id    TEXT    PRIMARY KEY CHECK (length(delivery_id) = 36),
    turn_id        TEXT    NOT NULL REFERENCES native_turns (id),
    round          INTEGER NOT NULL CHECK (round >= 2),
    seq            INTEGER NOT NULL UNIQUE REFERENCES native_events (seq) DEFERRABLE INITIALLY DEFERRED,
    shown          INTEGER NOT NULL CHECK (shown >= 0),
    cut            INTEGER NOT NULL CHECK (cut IN (0, 1)),
    usage          TEXT,
    response_id    TEXT    NOT NULL,
    response_model TEXT    NOT NULL,
    UNIQUE (turn_id, round)
);

-- An operation key, by fingerprint, and the one request that it stands for.
CREATE TABLE native_operations (
    fingerprint         TEXT    PRIMARY KEY CHECK (length(fingerprint) = 64),
    thread_id           TEXT    NOT NULL REFERENCES native_threads (id),
    turn_id             TEXT    NOT NULL UNIQUE REFERENCES native_turns (id) DEFERRABLE INITIALLY DEFERRED,
    request_fingerprint TEXT    NOT NULL CHECK (length(request_fingerprint) = 64),
    created_at          INTEGER NOT NULL
);

CREATE INDEX native_operations_thread ON native_operations (thread_id);

CREATE TABLE native_events (
    seq       INTEGER PRIMARY KEY,
    thread_id TEXT    NOT NULL REFERENCES native_threads (id),
    turn_id   TEXT,
    item_id   TEXT,
    event     TEXT    NOT NULL CHECK (event <> ''),
    at        INTEGER NOT NULL,
    payload   TEXT    NOT NULL
);

CREATE INDEX native_events_thread ON native_events (thread_id, seq);
