DROP TABLE sites;
