DROP TABLE audit;
DROP TABLE entries;
DROP TABLE policy_versions;
DROP TABLE policies;
DROP TABLE settings;
DROP TABLE revision;
