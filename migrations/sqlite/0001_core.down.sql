DROP TABLE audit;
DROP TABLE exemptions;
DROP TABLE blocks;
DROP TABLE policy_versions;
DROP TABLE policies;
DROP TABLE settings;
DROP TABLE revision;
