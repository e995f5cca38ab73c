DROP TABLE audit;
DROP FUNCTION audit_is_append_only;
DROP TABLE entries;
DROP TABLE policy_versions;
DROP TABLE policies;
DROP TABLE settings;
DROP TABLE revision;
