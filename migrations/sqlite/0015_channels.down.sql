DROP TABLE channels_changed;
DROP TABLE silences;
DROP TABLE channels;
