-- In the tables below, span is 1 for a minute, 2 for an hour and 3 for a day,
-- and start is its start time. The amounts of hours and days are the sums of
-- their minutes.

-- Refusals of one key under one policy by one rule or block, from one source
-- ('' if the check had none). kind is 0 for limited, 1 for blocked and 2 for
-- checks that a shadow policy would have limited. offences is a lower bound, and
-- offences + overcount an upper bound; the difference is counted in the row with the
-- key ''. place is the first address of the key's network.
CREATE TABLE offences (
    span           INTEGER NOT NULL,
    start          INTEGER NOT NULL,
    policy_id      INTEGER NOT NULL,
    mac            BLOB NOT NULL,
    kind           INTEGER NOT NULL,
    refused_by     TEXT NOT NULL,
    source         TEXT NOT NULL,
    key            TEXT NOT NULL,
    place          BLOB,
    offences       INTEGER NOT NULL,
    overcount      INTEGER NOT NULL,
    first_at       INTEGER NOT NULL,
    first_boundary INTEGER NOT NULL,
    first_retry_at INTEGER NOT NULL,
    first_meta     TEXT NOT NULL,
    last_at        INTEGER NOT NULL,
    last_boundary  INTEGER NOT NULL,
    last_retry_at  INTEGER NOT NULL,
    last_meta      TEXT NOT NULL,
    PRIMARY KEY (span, start, policy_id, mac, kind, refused_by, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX offences_key ON offences (key, span, start);
-- One row for each key and day, with a column for the offences of each hour, so
-- that a ranking of any time range reads few rows. An hour is added when its
-- minutes are aggregated.
CREATE TABLE offence_days (
    start     INTEGER NOT NULL,
    key       TEXT NOT NULL,
    policy_id INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    place     BLOB,
    h00       INTEGER NOT NULL DEFAULT 0,
    h01       INTEGER NOT NULL DEFAULT 0,
    h02       INTEGER NOT NULL DEFAULT 0,
    h03       INTEGER NOT NULL DEFAULT 0,
    h04       INTEGER NOT NULL DEFAULT 0,
    h05       INTEGER NOT NULL DEFAULT 0,
    h06       INTEGER NOT NULL DEFAULT 0,
    h07       INTEGER NOT NULL DEFAULT 0,
    h08       INTEGER NOT NULL DEFAULT 0,
    h09       INTEGER NOT NULL DEFAULT 0,
    h10       INTEGER NOT NULL DEFAULT 0,
    h11       INTEGER NOT NULL DEFAULT 0,
    h12       INTEGER NOT NULL DEFAULT 0,
    h13       INTEGER NOT NULL DEFAULT 0,
    h14       INTEGER NOT NULL DEFAULT 0,
    h15       INTEGER NOT NULL DEFAULT 0,
    h16       INTEGER NOT NULL DEFAULT 0,
    h17       INTEGER NOT NULL DEFAULT 0,
    h18       INTEGER NOT NULL DEFAULT 0,
    h19       INTEGER NOT NULL DEFAULT 0,
    h20       INTEGER NOT NULL DEFAULT 0,
    h21       INTEGER NOT NULL DEFAULT 0,
    h22       INTEGER NOT NULL DEFAULT 0,
    h23       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (start, key, policy_id, kind)
) STRICT, WITHOUT ROWID;

-- Exact counts of all checks by policy (0 if no policy applied).
CREATE TABLE traffic (
    span           INTEGER NOT NULL,
    start          INTEGER NOT NULL,
    policy_id      INTEGER NOT NULL,
    allowed        INTEGER NOT NULL,
    limited        INTEGER NOT NULL,
    blocked        INTEGER NOT NULL,
    unavailable    INTEGER NOT NULL,
    shadow_allowed INTEGER NOT NULL,
    shadow_limited INTEGER NOT NULL,
    cost_allowed   INTEGER NOT NULL,
    untracked      INTEGER NOT NULL,
    PRIMARY KEY (span, start, policy_id)
) STRICT, WITHOUT ROWID;

-- The keys with the most checks, and the keys with offences.
CREATE TABLE key_traffic (
    span      INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    policy_id INTEGER NOT NULL,
    key       TEXT NOT NULL,
    place     BLOB,
    allowed   INTEGER NOT NULL,
    refused   INTEGER NOT NULL,
    cost      INTEGER NOT NULL,
    overcount INTEGER NOT NULL,
    PRIMARY KEY (span, start, policy_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_traffic_key ON key_traffic (key, span, start);

-- Sketches of the distinct keys: one for each node and minute, and merged ones
-- with the node '' for hours and days.
CREATE TABLE distinct_keys (
    span      INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    policy_id INTEGER NOT NULL,
    node      TEXT NOT NULL,
    sketch    BLOB NOT NULL,
    PRIMARY KEY (span, start, policy_id, node)
) STRICT, WITHOUT ROWID;

-- The traffic sample: all checks of a sample of the keys.
CREATE TABLE trace (
    start  INTEGER NOT NULL,
    node   TEXT NOT NULL,
    id     TEXT NOT NULL,
    level  INTEGER NOT NULL,
    points BLOB NOT NULL,
    PRIMARY KEY (start, node, id)
) STRICT, WITHOUT ROWID;

-- The ids of written batches, so that no batch is added twice.
CREATE TABLE flushed_batches (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT;

-- Minutes before through are aggregated into the rows of span; amounts that
-- arrive later are added there too. Rows of span before gone are deleted.
CREATE TABLE rollups (
    span    INTEGER PRIMARY KEY,
    through INTEGER NOT NULL,
    gone    INTEGER NOT NULL
) STRICT;
INSERT INTO rollups (span, through, gone) VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0);

-- The state of a key under a policy's escalation.
CREATE TABLE escalations (
    policy_id    INTEGER NOT NULL,
    key          TEXT NOT NULL,
    level        INTEGER NOT NULL,
    block_id     TEXT NOT NULL,
    ended_at     INTEGER NOT NULL,
    last_at      INTEGER NOT NULL,
    decayed_to   INTEGER NOT NULL,
    touched      INTEGER NOT NULL,
    PRIMARY KEY (policy_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX escalations_key ON escalations (key);

-- The offences that count towards the next level, by minute.
CREATE TABLE escalation_counts (
    policy_id INTEGER NOT NULL,
    key       TEXT NOT NULL,
    start     INTEGER NOT NULL,
    offences  INTEGER NOT NULL,
    PRIMARY KEY (policy_id, key, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX escalation_counts_start ON escalation_counts (start);
CREATE INDEX escalation_counts_key ON escalation_counts (key, start);

CREATE TABLE escalation_events (
    id        TEXT PRIMARY KEY,
    at        INTEGER NOT NULL,
    policy_id INTEGER NOT NULL,
    policy    TEXT NOT NULL,
    key       TEXT NOT NULL,
    kind      TEXT NOT NULL,
    level     INTEGER NOT NULL,
    offences  INTEGER NOT NULL,
    length    INTEGER NOT NULL,
    block_id  TEXT NOT NULL,
    detail    TEXT NOT NULL
) STRICT;
CREATE INDEX escalation_events_at ON escalation_events (at);
CREATE INDEX escalation_events_key ON escalation_events (key, at);
CREATE INDEX escalation_events_policy ON escalation_events (policy_id, kind, at);

-- Escalations that are paused until an operator resumes them, and the times from
-- which resumed ones count again.
CREATE TABLE escalation_pauses (
    policy_id   INTEGER PRIMARY KEY,
    policy      TEXT NOT NULL,
    paused_at   INTEGER NOT NULL,
    resumed_at  INTEGER NOT NULL DEFAULT 0,
    would_block INTEGER NOT NULL,
    allowed     INTEGER NOT NULL,
    seen        INTEGER NOT NULL,
    detail      TEXT NOT NULL
) STRICT;

-- Proposals to block a range. place is '' while the proposal is open, and the
-- row's own id once it is decided, so that a range has one open proposal.
CREATE TABLE proposals (
    id         TEXT PRIMARY KEY,
    pattern    TEXT NOT NULL,
    place      TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    evidence   TEXT NOT NULL,
    decision   TEXT NOT NULL DEFAULT '',
    decided_at INTEGER NOT NULL DEFAULT 0,
    decided_by TEXT NOT NULL DEFAULT '',
    reason     TEXT NOT NULL DEFAULT '',
    block_id   TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX proposals_pattern ON proposals (pattern, place);
CREATE INDEX proposals_created ON proposals (created_at);

-- The daily and weekly reports.
CREATE TABLE documents (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    start      INTEGER NOT NULL,
    ends       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    body       TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX documents_period ON documents (kind, start);
