CREATE TABLE convoy_orders (
	stream text COLLATE "C" PRIMARY KEY,
	closed boolean NOT NULL DEFAULT false
);

CREATE TABLE convoy_lines (
	transaction text COLLATE "C" PRIMARY KEY,
	stream      text COLLATE "C" NOT NULL,
	amount      bigint NOT NULL
);

-- What the processor did not take from a ledger, and why.
CREATE TABLE convoy_refusals (
	entry       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	transaction text NOT NULL,
	reason      text NOT NULL
);

-- Who began when to own a queue.
CREATE TABLE convoy_terms (
	term   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	queue  bigint NOT NULL,
	worker text NOT NULL,
	began  bigint NOT NULL -- microseconds since 1970, as all times
);

-- Every run that had an effect, once for each of its orders, written with the
-- effect. Nothing here keeps one from being written twice, or too early: that
-- is for the check to find.
CREATE TABLE convoy_runs (
	entry  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	event  text NOT NULL,
	stream text NOT NULL,
	number bigint NOT NULL,
	term   bigint NOT NULL,
	began  bigint NOT NULL,
	ended  bigint NOT NULL
);

-- The number of partitions that the queues were filled with.
CREATE TABLE convoy_partitions (
	one    boolean PRIMARY KEY DEFAULT true CHECK (one),
	number bigint NOT NULL
);
