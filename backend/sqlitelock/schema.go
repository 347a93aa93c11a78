package sqlitelock

// applicationID marks our files in the SQLite header.
const applicationID = 0x496c6f6b // "Ilok"

// layout is the version of the schema. A file with another one is refused.
const layout = 3

const schema = `
CREATE TABLE file(               -- one row
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	floor    INTEGER NOT NULL    -- no queue that is made anew has smaller tokens
);
INSERT INTO file VALUES (1, 0);

CREATE TABLE cell(
	name      TEXT    PRIMARY KEY,
	version   INTEGER NOT NULL,
	present   INTEGER NOT NULL,
	followers TEXT    NOT NULL,  -- who are told once of the next change: mailboxes
	value     BLOB
);

CREATE TABLE swap(               -- the results of the last minutes
	id       TEXT    PRIMARY KEY,
	at       INTEGER NOT NULL,   -- wall
	version  INTEGER NOT NULL    -- that was made; 0: it was refused
) WITHOUT ROWID;
CREATE INDEX swap_at ON swap(at);

CREATE TABLE queue(
	name     TEXT    PRIMARY KEY,
	data     BLOB    NOT NULL    -- see package rows
);

CREATE TABLE ticket(             -- of the last ones of long queues
	queue    TEXT    NOT NULL,
	n        INTEGER NOT NULL,   -- larger than those in front
	id       TEXT    NOT NULL,
	data     BLOB    NOT NULL,
	PRIMARY KEY (queue, n)
) WITHOUT ROWID;
CREATE INDEX ticket_id ON ticket(id);
`
