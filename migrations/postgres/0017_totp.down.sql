DROP TABLE pending_logins;
DROP TABLE recovery_codes;
DROP TABLE totp_setups;
DROP TABLE totp;
