-- Up to where in an input every message has ended, so that a program that reads it
-- again can pass over them.
CREATE TABLE checkpoints (
	input    INTEGER PRIMARY KEY,
	messages INTEGER NOT NULL, -- from the beginning
	line     INTEGER NOT NULL, -- of the last one
	place    BLOB NOT NULL,    -- where the source goes on
	numbers  BLOB NOT NULL     -- the numbers given so far
) STRICT;
