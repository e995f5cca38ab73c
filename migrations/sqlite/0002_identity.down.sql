DROP TABLE sessions;
DROP TABLE users;
DROP TABLE tokens;
