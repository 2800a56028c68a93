-- The book. Accounts are paths such as 'Assets:Bank:Checking'; amounts are
-- decimal text, so that no digit is lost. The rows of an account and of all
-- below it are 'A' itself and the range from 'A:' up to 'A;'.

CREATE TABLE accounts (
	account TEXT PRIMARY KEY,
	state   INTEGER NOT NULL -- 1 active, 2 closed with all below it
) STRICT, WITHOUT ROWID;

CREATE TABLE balances (
	account   TEXT NOT NULL,
	commodity TEXT NOT NULL,
	amount    TEXT NOT NULL, -- the account's own balance
	PRIMARY KEY (account, commodity)
) STRICT, WITHOUT ROWID;

-- Every message that was applied, once.
CREATE TABLE journal (
	seq     INTEGER PRIMARY KEY,
	message TEXT NOT NULL -- JSON
) STRICT;

-- What each end of day found in the whole book.
CREATE TABLE closings (
	seq       INTEGER NOT NULL,
	commodity TEXT NOT NULL,
	total     TEXT NOT NULL,
	PRIMARY KEY (seq, commodity)
) STRICT, WITHOUT ROWID;
