-- What the safety limit of escalations counts: the addresses of one IPv4 /24 or IPv6 /48 once,
-- every other key by itself. Sketches of what each node saw in a minute, kept for two hours.
CREATE TABLE safety_units (
    start     BIGINT NOT NULL,
    policy_id BIGINT NOT NULL,
    node      TEXT COLLATE "C" NOT NULL,
    sketch    BYTEA NOT NULL,
    PRIMARY KEY (start, policy_id, node)
);
-- As what the key of an event counts; empty in events of earlier releases.
ALTER TABLE escalation_events ADD COLUMN counted_as TEXT COLLATE "C" NOT NULL DEFAULT '';
