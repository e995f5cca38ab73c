DROP TABLE deliveries;
DROP TABLE notifications;
DROP TABLE job_runs;
DROP TABLE leases;
