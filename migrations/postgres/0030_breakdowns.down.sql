DROP TABLE breakdowns;
