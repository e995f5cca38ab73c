-- Releases before this take them for users with a password.
DELETE FROM sessions WHERE user_id IN (SELECT id FROM users WHERE subject <> '');
DELETE FROM known_logins WHERE user_id IN (SELECT id FROM users WHERE subject <> '');
DELETE FROM users WHERE subject <> '';
DROP INDEX users_subject;
ALTER TABLE users DROP COLUMN subject;
ALTER TABLE users DROP COLUMN issuer;
