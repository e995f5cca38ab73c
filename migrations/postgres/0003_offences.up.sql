-- In the tables below, span is 1 for a minute, 2 for an hour and 3 for a day,
-- and start is its start time. The amounts of hours and days are the sums of
-- their minutes.

-- Refusals of one key under one policy by one rule or block, from one source
-- ('' if the check had none). kind is 0 for limited, 1 for blocked and 2 for
-- checks that a shadow policy would have limited. offences is a lower bound, and
-- offences + overcount an upper bound; the difference is counted in the row with the
-- key ''. place is the first address of the key's network.
CREATE TABLE offences (
    span           SMALLINT NOT NULL,
    start          BIGINT NOT NULL,
    policy_id      BIGINT NOT NULL,
    mac            BYTEA NOT NULL,
    kind           SMALLINT NOT NULL,
    refused_by     TEXT COLLATE "C" NOT NULL,
    source         TEXT COLLATE "C" NOT NULL,
    key            TEXT COLLATE "C" NOT NULL,
    place          BYTEA,
    offences       BIGINT NOT NULL,
    overcount      BIGINT NOT NULL,
    first_at       BIGINT NOT NULL,
    first_boundary BIGINT NOT NULL,
    first_retry_at BIGINT NOT NULL,
    first_meta     TEXT NOT NULL,
    last_at        BIGINT NOT NULL,
    last_boundary  BIGINT NOT NULL,
    last_retry_at  BIGINT NOT NULL,
    last_meta      TEXT NOT NULL,
    PRIMARY KEY (span, start, policy_id, mac, kind, refused_by, source)
);
CREATE INDEX offences_key ON offences (key, span, start);
-- One row for each key and day, with a column for the offences of each hour, so
-- that a ranking of any time range reads few rows. An hour is added when its
-- minutes are aggregated.
CREATE TABLE offence_days (
    start     BIGINT NOT NULL,
    key       TEXT COLLATE "C" NOT NULL,
    policy_id BIGINT NOT NULL,
    kind      SMALLINT NOT NULL,
    place     BYTEA,
    h00       BIGINT NOT NULL DEFAULT 0,
    h01       BIGINT NOT NULL DEFAULT 0,
    h02       BIGINT NOT NULL DEFAULT 0,
    h03       BIGINT NOT NULL DEFAULT 0,
    h04       BIGINT NOT NULL DEFAULT 0,
    h05       BIGINT NOT NULL DEFAULT 0,
    h06       BIGINT NOT NULL DEFAULT 0,
    h07       BIGINT NOT NULL DEFAULT 0,
    h08       BIGINT NOT NULL DEFAULT 0,
    h09       BIGINT NOT NULL DEFAULT 0,
    h10       BIGINT NOT NULL DEFAULT 0,
    h11       BIGINT NOT NULL DEFAULT 0,
    h12       BIGINT NOT NULL DEFAULT 0,
    h13       BIGINT NOT NULL DEFAULT 0,
    h14       BIGINT NOT NULL DEFAULT 0,
    h15       BIGINT NOT NULL DEFAULT 0,
    h16       BIGINT NOT NULL DEFAULT 0,
    h17       BIGINT NOT NULL DEFAULT 0,
    h18       BIGINT NOT NULL DEFAULT 0,
    h19       BIGINT NOT NULL DEFAULT 0,
    h20       BIGINT NOT NULL DEFAULT 0,
    h21       BIGINT NOT NULL DEFAULT 0,
    h22       BIGINT NOT NULL DEFAULT 0,
    h23       BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (start, key, policy_id, kind)
) WITH (fillfactor = 70);

-- Exact counts of all checks by policy (0 if no policy applied).
CREATE TABLE traffic (
    span           SMALLINT NOT NULL,
    start          BIGINT NOT NULL,
    policy_id      BIGINT NOT NULL,
    allowed        BIGINT NOT NULL,
    limited        BIGINT NOT NULL,
    blocked        BIGINT NOT NULL,
    unavailable    BIGINT NOT NULL,
    shadow_allowed BIGINT NOT NULL,
    shadow_limited BIGINT NOT NULL,
    cost_allowed   BIGINT NOT NULL,
    untracked      BIGINT NOT NULL,
    PRIMARY KEY (span, start, policy_id)
);

-- The keys with the most checks, and the keys with offences.
CREATE TABLE key_traffic (
    span      SMALLINT NOT NULL,
    start     BIGINT NOT NULL,
    policy_id BIGINT NOT NULL,
    key       TEXT COLLATE "C" NOT NULL,
    place     BYTEA,
    allowed   BIGINT NOT NULL,
    refused   BIGINT NOT NULL,
    cost      BIGINT NOT NULL,
    overcount BIGINT NOT NULL,
    PRIMARY KEY (span, start, policy_id, key)
);
CREATE INDEX key_traffic_key ON key_traffic (key, span, start);

-- Sketches of the distinct keys: one for each node and minute, and merged ones
-- with the node '' for hours and days.
CREATE TABLE distinct_keys (
    span      SMALLINT NOT NULL,
    start     BIGINT NOT NULL,
    policy_id BIGINT NOT NULL,
    node      TEXT COLLATE "C" NOT NULL,
    sketch    BYTEA NOT NULL,
    PRIMARY KEY (span, start, policy_id, node)
);

-- The traffic sample: all checks of a sample of the keys.
CREATE TABLE trace (
    start  BIGINT NOT NULL,
    node   TEXT COLLATE "C" NOT NULL,
    id     TEXT COLLATE "C" NOT NULL,
    level  SMALLINT NOT NULL,
    points BYTEA NOT NULL,
    PRIMARY KEY (start, node, id)
);

-- The ids of written batches, so that no batch is added twice.
CREATE TABLE flushed_batches (
    id TEXT COLLATE "C" PRIMARY KEY,
    at BIGINT NOT NULL
);

-- Minutes before through are aggregated into the rows of span; amounts that
-- arrive later are added there too. Rows of span before gone are deleted.
CREATE TABLE rollups (
    span    SMALLINT PRIMARY KEY,
    through BIGINT NOT NULL,
    gone    BIGINT NOT NULL
);
INSERT INTO rollups (span, through, gone) VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0);

-- The state of a key under a policy's escalation.
CREATE TABLE escalations (
    policy_id    BIGINT NOT NULL,
    key          TEXT COLLATE "C" NOT NULL,
    level        BIGINT NOT NULL,
    block_id     TEXT COLLATE "C" NOT NULL,
    ended_at     BIGINT NOT NULL,
    last_at      BIGINT NOT NULL,
    decayed_to   BIGINT NOT NULL,
    touched      BIGINT NOT NULL,
    PRIMARY KEY (policy_id, key)
);
CREATE INDEX escalations_key ON escalations (key);

-- The offences that count towards the next level, by minute.
CREATE TABLE escalation_counts (
    policy_id BIGINT NOT NULL,
    key       TEXT COLLATE "C" NOT NULL,
    start     BIGINT NOT NULL,
    offences  BIGINT NOT NULL,
    PRIMARY KEY (policy_id, key, start)
);
CREATE INDEX escalation_counts_start ON escalation_counts (start);
CREATE INDEX escalation_counts_key ON escalation_counts (key, start);

CREATE TABLE escalation_events (
    id        TEXT COLLATE "C" PRIMARY KEY,
    at        BIGINT NOT NULL,
    policy_id BIGINT NOT NULL,
    policy    TEXT COLLATE "C" NOT NULL,
    key       TEXT COLLATE "C" NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    level     BIGINT NOT NULL,
    offences  BIGINT NOT NULL,
    length    BIGINT NOT NULL,
    block_id  TEXT COLLATE "C" NOT NULL,
    detail    TEXT NOT NULL
);
CREATE INDEX escalation_events_at ON escalation_events (at);
CREATE INDEX escalation_events_key ON escalation_events (key, at);
CREATE INDEX escalation_events_policy ON escalation_events (policy_id, kind, at);

-- Escalations that are paused until an operator resumes them, and the times from
-- which resumed ones count again.
CREATE TABLE escalation_pauses (
    policy_id   BIGINT PRIMARY KEY,
    policy      TEXT COLLATE "C" NOT NULL,
    paused_at   BIGINT NOT NULL,
    resumed_at  BIGINT NOT NULL DEFAULT 0,
    would_block BIGINT NOT NULL,
    allowed     BIGINT NOT NULL,
    seen        BIGINT NOT NULL,
    detail      TEXT NOT NULL
);

-- Proposals to block a range. place is '' while the proposal is open, and the
-- row's own id once it is decided, so that a range has one open proposal.
CREATE TABLE proposals (
    id         TEXT COLLATE "C" PRIMARY KEY,
    pattern    TEXT COLLATE "C" NOT NULL,
    place      TEXT COLLATE "C" NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    evidence   TEXT NOT NULL,
    decision   TEXT COLLATE "C" NOT NULL DEFAULT '',
    decided_at BIGINT NOT NULL DEFAULT 0,
    decided_by TEXT NOT NULL DEFAULT '',
    reason     TEXT NOT NULL DEFAULT '',
    block_id   TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX proposals_pattern ON proposals (pattern, place);
CREATE INDEX proposals_created ON proposals (created_at);

-- The daily and weekly reports.
CREATE TABLE documents (
    id         TEXT COLLATE "C" PRIMARY KEY,
    kind       TEXT COLLATE "C" NOT NULL,
    start      BIGINT NOT NULL,
    ends       BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    body       TEXT NOT NULL
);
CREATE UNIQUE INDEX documents_period ON documents (kind, start);
