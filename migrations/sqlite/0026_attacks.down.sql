DROP TABLE attacks;
