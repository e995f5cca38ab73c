-- The last audit record that the event log has, in one row once there is one.
CREATE TABLE event_log (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    audit INTEGER NOT NULL
) STRICT;
