-- What is kept about a key: its plan, labels, a note and a limit of its own. A row of which
-- nothing is left stays for a while, so that nodes see it go. Nodes of the release before
-- know nothing of it, and go on by their policies' other patterns.
CREATE TABLE profiles (
    key              TEXT PRIMARY KEY,
    plan             TEXT NOT NULL,
    labels           TEXT NOT NULL,
    note             TEXT NOT NULL,
    limit_rules      TEXT NOT NULL,
    limit_reason     TEXT NOT NULL,
    limit_author     TEXT NOT NULL,
    limit_created_at INTEGER NOT NULL,
    limit_expires_at INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    updated_by       TEXT NOT NULL,
    deleted_at       INTEGER NOT NULL,
    revision         INTEGER NOT NULL
) STRICT;
CREATE INDEX profiles_revision ON profiles (revision);
CREATE INDEX profiles_plan ON profiles (plan, key) WHERE plan <> '';
CREATE INDEX profiles_limit ON profiles (key) WHERE limit_rules <> '';
-- By label, what profiles.labels says.
CREATE TABLE profile_labels (
    label TEXT NOT NULL,
    key   TEXT NOT NULL,
    PRIMARY KEY (label, key)
) STRICT;
CREATE INDEX profile_labels_key ON profile_labels (key);
