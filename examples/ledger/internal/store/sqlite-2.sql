-- Messages that the book has refused, in the order in which it did, so that they
-- are told again when their input is.
CREATE TABLE refusals (
	entry   INTEGER PRIMARY KEY AUTOINCREMENT,
	event   TEXT NOT NULL,
	input   INTEGER NOT NULL, -- 0 for those that their senders numbered
	line    INTEGER NOT NULL,
	reason  TEXT NOT NULL,
	detail  TEXT NOT NULL,
	message TEXT NOT NULL     -- JSON
) STRICT;
CREATE INDEX refusals_input ON refusals (input, entry);

-- Messages that have an id, and what was answered to them.
CREATE TABLE known (
	id     TEXT PRIMARY KEY,
	digest TEXT NOT NULL, -- of what the message says
	answer TEXT NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;

-- What was read of each input that can be read again: 16 bytes of the SHA-256 of
-- each message, many to a block. They are here before the messages have numbers.
CREATE TABLE digests (
	input   INTEGER NOT NULL,
	block   INTEGER NOT NULL,
	digests BLOB NOT NULL,
	PRIMARY KEY (input, block)
) STRICT, WITHOUT ROWID;

-- An input was known by its bytes once; it is by its messages now.
ALTER TABLE inputs ADD COLUMN identity TEXT NOT NULL DEFAULT '';
UPDATE inputs SET identity = CASE WHEN size > 0 THEN 'bytes:' || size || ':' || digest ELSE digest END;
ALTER TABLE inputs DROP COLUMN size;
ALTER TABLE inputs DROP COLUMN digest;
