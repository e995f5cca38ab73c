-- No code has read or written it since before the first release.
DROP TABLE saved_views;
