-- The same table as in sqlite-3.sql, which explains it.
CREATE TABLE checkpoints (
	input    bigint PRIMARY KEY,
	messages bigint NOT NULL,
	line     bigint NOT NULL,
	place    bytea NOT NULL,
	numbers  bytea NOT NULL
);
