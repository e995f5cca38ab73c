-- Users who log in with an OpenID provider: who they are there. Both are empty for users
-- with a password. Such a user has no password: password_hash is empty, which nothing matches.
ALTER TABLE users ADD COLUMN issuer  TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN subject TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE UNIQUE INDEX users_subject ON users (issuer, subject) WHERE subject <> '';
