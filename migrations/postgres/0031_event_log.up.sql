-- The last audit record that the event log has, in one row once there is one.
CREATE TABLE event_log (
    id    SMALLINT PRIMARY KEY CHECK (id = 1),
    audit BIGINT NOT NULL
);
