package sqlitelock

// applicationID marks our files in the SQLite header.
const applicationID = 0x496c6f6b // "Ilok"

// layout is the version of the schema. A file with a larger one is refused.
const layout = 1

// Times are moments of the file (see fileclock.Clock), walls are Unix times in
// nanoseconds.
const schema = `
CREATE TABLE file(               -- one row
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	boot     TEXT    NOT NULL,   -- what the moments in this file count from
	floor    INTEGER NOT NULL,   -- no queue that is made anew has smaller numbers
	opened   INTEGER NOT NULL    -- sessions ever opened
);
INSERT INTO file VALUES (1, '', 0, 0);

CREATE TABLE session(
	sid      INTEGER PRIMARY KEY AUTOINCREMENT,
	id       TEXT    NOT NULL,   -- names its files
	post     TEXT    NOT NULL,   -- names the socket that messages go to
	owner    TEXT    NOT NULL,
	ttl      INTEGER NOT NULL,
	expires  INTEGER NOT NULL    -- nothing of it ends before; 0: it is over
);
CREATE INDEX session_expires ON session(expires);

CREATE TABLE queue(
	name     TEXT    PRIMARY KEY,
	kind     TEXT    NOT NULL,
	capacity INTEGER NOT NULL,
	last     INTEGER NOT NULL,   -- the largest number that was given out
	granted  INTEGER NOT NULL,   -- tickets up to this number are held
	shift    INTEGER NOT NULL,   -- token = number + shift
	used     INTEGER NOT NULL,   -- units of the held tickets
	tickets  INTEGER NOT NULL,
	waiting  INTEGER NOT NULL,   -- how many of them wait
	unclean  INTEGER NOT NULL,   -- the last exclusive holder did not leave cleanly
	version  INTEGER NOT NULL,
	watched  INTEGER NOT NULL,   -- there may be rows in watch
	id       TEXT,               -- the only ticket, if it is kept here; its number is granted
	units    INTEGER NOT NULL,
	sid      INTEGER NOT NULL,
	since    INTEGER NOT NULL,   -- also of the last one that was kept here
	note     BLOB
) WITHOUT ROWID;

CREATE TABLE ticket(
	queue    TEXT    NOT NULL,
	n        INTEGER NOT NULL,
	id       TEXT    NOT NULL,
	units    INTEGER NOT NULL,
	sid      INTEGER NOT NULL,
	since    INTEGER NOT NULL,
	note     BLOB,
	hold     INTEGER NOT NULL,   -- the length of its fixed time
	ends     INTEGER,            -- its own end, if it has one
	wall     INTEGER,            -- the wall clock then
	flags    INTEGER NOT NULL,
	owner    TEXT,               -- of a fixed one, which may outlive its session
	token    INTEGER,            -- if it is not number + shift
	PRIMARY KEY (queue, n)
) WITHOUT ROWID;
CREATE INDEX ticket_ends ON ticket(ends) WHERE ends IS NOT NULL;

CREATE TABLE cell(
	name     TEXT    PRIMARY KEY,
	version  INTEGER NOT NULL,
	present  INTEGER NOT NULL,
	watched  INTEGER NOT NULL,
	value    BLOB
);

CREATE TABLE swap(               -- the results of the last minutes
	id       TEXT    PRIMARY KEY,
	at       INTEGER NOT NULL,   -- wall
	version  INTEGER NOT NULL    -- that was made; 0: it was refused
) WITHOUT ROWID;
CREATE INDEX swap_at ON swap(at);

CREATE TABLE watch(              -- who is to be told once of the next change
	what     TEXT    NOT NULL,   -- queue or cell
	name     TEXT    NOT NULL,
	post     TEXT    NOT NULL,
	PRIMARY KEY (what, name, post)
) WITHOUT ROWID;
`

// Flags of a ticket.
const (
	fixed   = 1 << iota // it ends at its own end, whatever its session does
	evicted             // it is not renewed any more
	revoked             // its holder was asked to give it up
	kept                // joined without a fixed time: its end is a clean one
	stray               // its caller does not know of it, so it is not renewed
)
