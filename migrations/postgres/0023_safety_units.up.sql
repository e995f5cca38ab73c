-- What the safety limit of escalations counts: the addresses of one IPv4 /24 or IPv6 /48 once,
-- except those of private networks; every other key by itself (offences.SafetyUnit). Sketches
-- of what each node saw in a minute, kept for two hours.
CREATE TABLE safety_units (
    start     BIGINT NOT NULL,
    policy_id BIGINT NOT NULL,
    node      TEXT COLLATE "C" NOT NULL,
    sketch    BYTEA NOT NULL,
    PRIMARY KEY (start, policy_id, node)
);
-- The unit of the safety limit that the key of the event belongs to; empty in events of
-- earlier releases.
ALTER TABLE escalation_events ADD COLUMN counted_as TEXT COLLATE "C" NOT NULL DEFAULT '';
