DROP TABLE block_sources;
