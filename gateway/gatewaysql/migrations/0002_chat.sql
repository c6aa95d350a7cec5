-- Threads, their logs, the queue, turns, runs and what hosts are told.
-- Moments are milliseconds since 1970.

-- +goose Up
CREATE TABLE agents (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL,
    owner_account_id TEXT NOT NULL DEFAULT '',
    name             TEXT NOT NULL,
    description      TEXT NOT NULL DEFAULT '',
    instructions     TEXT NOT NULL DEFAULT '',
    model            TEXT NOT NULL DEFAULT '',
    private          INTEGER NOT NULL DEFAULT 0,
    is_default       INTEGER NOT NULL DEFAULT 0,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    deleted_at       BIGINT
);
CREATE INDEX agents_of_org ON agents (org_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX agents_default ON agents (org_id) WHERE is_default = 1;

-- A deleted thread stays as a row without content: its id is never used again.
CREATE TABLE threads (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL,
    account_id    TEXT NOT NULL,
    agent_id      TEXT NOT NULL REFERENCES agents (id),
    made_by       TEXT NOT NULL,
    title         TEXT,
    model         TEXT,
    latest_seq    BIGINT NOT NULL DEFAULT 0,
    last_read_seq BIGINT NOT NULL DEFAULT 0,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    deleted_at    BIGINT
);
CREATE INDEX threads_of_account ON threads (account_id, updated_at, id) WHERE deleted_at IS NULL;

-- Append-only. turn_id of a control.interrupt is the interrupted turn (SQ17).
-- payload holds the keys that have no column; it is null when there are none.
CREATE TABLE thread_events (
    id               TEXT PRIMARY KEY,
    thread_id        TEXT NOT NULL REFERENCES threads (id),
    seq_id           BIGINT NOT NULL,
    event_type       TEXT NOT NULL,
    created_at       BIGINT NOT NULL,
    turn_id          TEXT,
    revokes_event_id TEXT,
    content          TEXT,
    payload          TEXT,
    size             BIGINT NOT NULL,
    UNIQUE (thread_id, seq_id)
);
CREATE INDEX thread_events_revokes ON thread_events (revokes_event_id) WHERE revokes_event_id IS NOT NULL;

-- Every client event id ever spent, installation-wide (SQ49), with its first reply.
CREATE TABLE client_events (
    id           TEXT PRIMARY KEY,
    account_id   TEXT NOT NULL,
    kind         TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    reply        TEXT NOT NULL DEFAULT '',
    settled      INTEGER NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL
);

-- Waiting messages. An item leaves when a turn takes it, as its prompt or as a
-- steer, when its owner recalls it, or when admission refuses it.
CREATE TABLE queue (
    event_id   TEXT PRIMARY KEY REFERENCES thread_events (id),
    origin_id  TEXT NOT NULL,
    origin_seq BIGINT NOT NULL,
    thread_id  TEXT NOT NULL REFERENCES threads (id),
    item_rank  INTEGER NOT NULL DEFAULT 0,
    mode       TEXT NOT NULL CHECK (mode IN ('queue', 'steer')),
    now_flag   INTEGER NOT NULL DEFAULT 0,
    model      TEXT NOT NULL DEFAULT '',
    options    TEXT NOT NULL DEFAULT '',
    prompt     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    origin     TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX queue_order ON queue (thread_id, item_rank, origin_seq);

-- One run for each thread and host.
CREATE TABLE runs (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL,
    account_id   TEXT NOT NULL,
    thread_id    TEXT NOT NULL REFERENCES threads (id),
    host_id      TEXT NOT NULL,
    target_ref   TEXT NOT NULL,
    cursor_seq   BIGINT NOT NULL DEFAULT 0,
    command_seq  BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    UNIQUE (thread_id, host_id, target_ref)
);
CREATE INDEX runs_of_host ON runs (host_id);

-- applied is set once the host has answered that the binding exists.
CREATE TABLE bindings (
    id                TEXT PRIMARY KEY,
    run_id            TEXT NOT NULL REFERENCES runs (id),
    model_provider    TEXT NOT NULL,
    model_provider_id TEXT NOT NULL,
    model             TEXT NOT NULL,
    virtual_thread_id TEXT NOT NULL UNIQUE,
    continue_from     TEXT NOT NULL DEFAULT '',
    applied           INTEGER NOT NULL DEFAULT 0,
    created_at        BIGINT NOT NULL
);
CREATE INDEX bindings_of_run ON bindings (run_id, created_at);
CREATE INDEX bindings_by_age ON bindings (created_at, id);

-- input_event_id is the waiting message that the turn took: no turn without one
-- (SQ1), no message twice.
CREATE TABLE turns (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL,
    account_id      TEXT NOT NULL,
    thread_id       TEXT NOT NULL REFERENCES threads (id),
    input_event_id  TEXT NOT NULL UNIQUE CHECK (input_event_id <> ''),
    run_id          TEXT REFERENCES runs (id),
    binding_id      TEXT REFERENCES bindings (id),
    host_id         TEXT NOT NULL DEFAULT '',
    virtual_turn_id TEXT,
    status          TEXT NOT NULL CHECK (status IN
        ('queued', 'pending', 'running', 'completed', 'failed', 'cancelled', 'timeout')),
    reason          TEXT NOT NULL DEFAULT '',
    error           TEXT NOT NULL DEFAULT '',
    interrupted     INTEGER NOT NULL DEFAULT 0,
    recover_by      BIGINT,
    model           TEXT NOT NULL,
    route           TEXT NOT NULL,
    billing         TEXT NOT NULL DEFAULT 'own' CHECK (billing IN ('own', 'metered')),
    family          TEXT NOT NULL DEFAULT '',
    marker_event_id TEXT NOT NULL DEFAULT '',
    context         TEXT NOT NULL DEFAULT '',
    estimate_input  BIGINT NOT NULL DEFAULT 0,
    estimate_output BIGINT NOT NULL DEFAULT 0,
    partial         TEXT,
    created_at      BIGINT NOT NULL,
    started_at      BIGINT,
    ended_at        BIGINT,
    UNIQUE (run_id, virtual_turn_id)
);
-- One turn at a time in a thread.
CREATE UNIQUE INDEX turns_active ON turns (thread_id) WHERE status IN ('queued', 'pending', 'running');
-- A cancelled turn whose host has not told its end yet holds its thread closed.
CREATE INDEX turns_recovering ON turns (thread_id, recover_by) WHERE recover_by IS NOT NULL;
CREATE INDEX turns_of_thread ON turns (thread_id, created_at);
-- What an org and its members have running, and what waits for the org.
CREATE INDEX turns_live_of_org ON turns (org_id, account_id) WHERE status IN ('pending', 'running');
-- The status in it makes SQLite prefer it to turns_of_org.
CREATE INDEX turns_waiting_of_org ON turns (status, org_id, created_at, id) WHERE status = 'queued';
CREATE INDEX turns_of_account ON turns (account_id, created_at);
-- Rounds that no native history has.
CREATE INDEX turns_unknown ON turns (thread_id, created_at) WHERE started_at IS NULL;
CREATE INDEX turns_by_start ON turns (started_at) WHERE status = 'running';
CREATE INDEX turns_of_org ON turns (org_id, created_at, id);

-- The text of a turn in progress, one row for each group commit; dropped when
-- output events stand for it. sources are the ids of the native events in it.
CREATE TABLE turn_deltas (
    turn_id     TEXT NOT NULL REFERENCES turns (id),
    from_offset BIGINT NOT NULL,
    to_offset   BIGINT NOT NULL,
    body        TEXT NOT NULL,
    sources     TEXT NOT NULL,
    PRIMARY KEY (turn_id, from_offset)
);

CREATE TABLE turn_usage (
    turn_id     TEXT NOT NULL REFERENCES turns (id),
    response_id TEXT NOT NULL,
    category    TEXT NOT NULL,
    quantity    BIGINT NOT NULL,
    PRIMARY KEY (turn_id, response_id, category)
);

-- Offers of inputs to running turns. event_id is a waiting message's, or of a
-- deadline warning an id that no event has. prompt is empty once it is settled.
CREATE TABLE deliveries (
    id         TEXT PRIMARY KEY,
    turn_id    TEXT NOT NULL REFERENCES turns (id),
    thread_id  TEXT NOT NULL REFERENCES threads (id),
    event_id   TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('message', 'deadline')),
    state      TEXT NOT NULL CHECK (state IN ('waiting', 'reserved', 'held', 'delivered', 'released', 'expired')),
    prompt     TEXT NOT NULL,
    now_flag   INTEGER NOT NULL DEFAULT 0,
    at_offset  BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    settled_at BIGINT
);
CREATE UNIQUE INDEX deliveries_open_of_turn ON deliveries (turn_id) WHERE state IN ('reserved', 'held');
CREATE UNIQUE INDEX deliveries_open_of_event ON deliveries (event_id) WHERE state IN ('reserved', 'held');
CREATE UNIQUE INDEX deliveries_deadline ON deliveries (turn_id) WHERE kind = 'deadline';
CREATE INDEX deliveries_of_turn ON deliveries (turn_id, created_at, id);

-- What a metered turn costs, booked once (SQ74); id is made of turn, response and
-- category. Append-only.
CREATE TABLE charges (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL,
    account_id  TEXT NOT NULL,
    turn_id     TEXT NOT NULL REFERENCES turns (id),
    provider    TEXT NOT NULL,
    model       TEXT NOT NULL,
    response_id TEXT NOT NULL,
    category    TEXT NOT NULL,
    quantity    BIGINT NOT NULL,
    credits     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX charges_of_turn ON charges (turn_id, category);
CREATE INDEX charges_of_org ON charges (org_id, created_at);

CREATE TABLE turn_moments (
    turn_id TEXT NOT NULL REFERENCES turns (id),
    pos     INTEGER NOT NULL,
    at      BIGINT NOT NULL,
    stage   TEXT NOT NULL,
    detail  TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (turn_id, pos)
);

-- What hosts are told. parked: its turn waits for the org, no host is told; pending: never given to a host, or known to have had no
-- effect there; sent: the host may know it; the others need no answer any more,
-- and have no body then: it holds what people wrote.
CREATE TABLE commands (
    run_id     TEXT NOT NULL REFERENCES runs (id),
    seq        BIGINT NOT NULL,
    turn_id    TEXT NOT NULL REFERENCES turns (id),
    kind       TEXT NOT NULL,
    body       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('parked', 'pending', 'sent', 'acked', 'failed', 'dropped')),
    error      TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX commands_open ON commands (run_id, seq) WHERE state IN ('pending', 'sent');
CREATE INDEX commands_of_turn ON commands (turn_id, seq);

-- The account-wide feed of thread events.
CREATE TABLE feed_heads (
    account_id TEXT PRIMARY KEY,
    seq_id     BIGINT NOT NULL
);
CREATE TABLE thread_feed (
    account_id TEXT NOT NULL,
    seq_id     BIGINT NOT NULL,
    kind       TEXT NOT NULL,
    thread_id  TEXT NOT NULL REFERENCES threads (id),
    title      TEXT,
    model      TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, seq_id)
);

-- +goose Down
DROP TABLE thread_feed;
DROP TABLE feed_heads;
DROP TABLE commands;
DROP TABLE turn_moments;
DROP TABLE charges;
DROP TABLE deliveries;
DROP TABLE turn_usage;
DROP TABLE turn_deltas;
DROP TABLE turns;
DROP TABLE bindings;
DROP TABLE runs;
DROP TABLE queue;
DROP TABLE client_events;
DROP TABLE thread_events;
DROP TABLE threads;
DROP TABLE agents;
