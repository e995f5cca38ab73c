DROP TABLE verified_crawlers;
