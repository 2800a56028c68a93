-- The same tables as in sqlite.sql, which explains them.

CREATE TABLE accounts (
	account text COLLATE "C" PRIMARY KEY,
	state   integer NOT NULL
);

CREATE TABLE balances (
	account   text COLLATE "C" NOT NULL,
	commodity text COLLATE "C" NOT NULL,
	amount    text NOT NULL,
	PRIMARY KEY (account, commodity)
);

CREATE TABLE journal (
	entry   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	event   text NOT NULL,
	message text NOT NULL
);

CREATE TABLE closings (
	event     text NOT NULL,
	commodity text NOT NULL,
	total     text NOT NULL,
	PRIMARY KEY (event, commodity)
);

CREATE TABLE inputs (
	input  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name   text NOT NULL,
	size   bigint NOT NULL,
	digest text NOT NULL
);
