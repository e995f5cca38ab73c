DROP INDEX users_revision;
DROP TABLE ended_credentials;
DROP TABLE known_logins;
DROP TABLE audit_anchor;
DROP TABLE audit_chain;
