-- The same tables as in sqlite-2.sql, which explains them, and one more.

CREATE TABLE refusals (
	entry   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	event   text NOT NULL,
	input   bigint NOT NULL,
	line    bigint NOT NULL,
	reason  text NOT NULL,
	detail  text NOT NULL,
	message text NOT NULL
);
CREATE INDEX refusals_input ON refusals (input, entry);

CREATE TABLE known (
	id     text COLLATE "C" PRIMARY KEY,
	digest text NOT NULL,
	answer text NOT NULL
);

CREATE TABLE digests (
	input   bigint NOT NULL,
	block   bigint NOT NULL,
	digests bytea NOT NULL,
	PRIMARY KEY (input, block)
);

ALTER TABLE inputs ADD COLUMN identity text NOT NULL DEFAULT '';
UPDATE inputs SET identity = CASE WHEN size > 0 THEN 'bytes:' || size || ':' || digest ELSE digest END;
ALTER TABLE inputs DROP COLUMN size;
ALTER TABLE inputs DROP COLUMN digest;

-- The term of whoever opened the database last. Every commit reads it, and so
-- keeps it from being changed until it has ended.
CREATE TABLE holder (term bigint NOT NULL);
INSERT INTO holder VALUES (0);
