-- What is kept about a key: its plan, labels, a note and a limit of its own. A row of which
-- nothing is left stays for a while, so that nodes see it go. Nodes of the release before
-- know nothing of it, and go on by their policies' other patterns.
CREATE TABLE profiles (
    key              TEXT COLLATE "C" PRIMARY KEY,
    plan             TEXT COLLATE "C" NOT NULL,
    labels           TEXT COLLATE "C" NOT NULL,
    note             TEXT NOT NULL,
    limit_rules      TEXT COLLATE "C" NOT NULL,
    limit_reason     TEXT NOT NULL,
    limit_author     TEXT NOT NULL,
    limit_created_at BIGINT NOT NULL,
    limit_expires_at BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    updated_by       TEXT NOT NULL,
    deleted_at       BIGINT NOT NULL,
    revision         BIGINT NOT NULL
);
CREATE INDEX profiles_revision ON profiles (revision);
CREATE INDEX profiles_plan ON profiles (plan, key) WHERE plan <> '';
CREATE INDEX profiles_limit ON profiles (key) WHERE limit_rules <> '';
-- By label, what profiles.labels says.
CREATE TABLE profile_labels (
    label TEXT COLLATE "C" NOT NULL,
    key   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (label, key)
);
CREATE INDEX profile_labels_key ON profile_labels (key);
