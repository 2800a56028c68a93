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

-- Every message that was applied, in an order in which they could have been
-- applied one after the other. That each is here once is the work of its
-- numbers; no constraint hides it if they fail.
CREATE TABLE journal (
	entry   INTEGER PRIMARY KEY AUTOINCREMENT,
	event   TEXT NOT NULL,
	message TEXT NOT NULL -- JSON
) STRICT;

-- What each end of day found in the whole book.
CREATE TABLE closings (
	event     TEXT NOT NULL,
	commodity TEXT NOT NULL,
	total     TEXT NOT NULL,
	PRIMARY KEY (event, commodity)
) STRICT, WITHOUT ROWID;

-- What messages were read from. Those of input 3 are numbered on streams
-- below 'input/3'.
CREATE TABLE inputs (
	input  INTEGER PRIMARY KEY AUTOINCREMENT,
	name   TEXT NOT NULL,
	size   INTEGER NOT NULL, -- bytes when it was last begun
	digest TEXT NOT NULL     -- SHA-256 of them
) STRICT;
