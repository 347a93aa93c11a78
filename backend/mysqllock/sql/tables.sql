-- Times are microseconds since 1970 of the server's clock, IDs are 16 bytes, names are bytes.

CREATE TABLE IF NOT EXISTS {p}queues(
	name     VARBINARY(512)  NOT NULL PRIMARY KEY,
	no       BIGINT          NOT NULL AUTO_INCREMENT UNIQUE,
	kind     VARBINARY(64)   NOT NULL,
	capacity BIGINT          NOT NULL,
	last     BIGINT          NOT NULL,           -- the largest number that was given out
	granted  BIGINT          NOT NULL,           -- tickets up to this number are held
	token_offset BIGINT      NOT NULL DEFAULT 0, -- token = number + offset: see raise
	used     BIGINT          NOT NULL DEFAULT 0, -- units of the held tickets
	tickets  BIGINT          NOT NULL DEFAULT 0, -- one more if it keeps its capacity: see resize
	waiting  BIGINT          NOT NULL DEFAULT 0, -- how many of them wait
	unclean  TINYINT         NOT NULL DEFAULT 0, -- the last exclusive holder did not leave cleanly
	watched  TINYINT         NOT NULL DEFAULT 0, -- there may be rows in watches
	slow     BIGINT          NOT NULL DEFAULT 0, -- until then there may be rows in refused; {forever}: it keeps its capacity
	id       BINARY(16)      NULL,               -- the only ticket, if it is kept here; its number is granted. Without tickets: of the last one
	session  BINARY(16)      NULL,
	since    BIGINT          NOT NULL,           -- also of the last one that was kept here
	note     MEDIUMBLOB      NULL
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}tickets(
	queue    BIGINT          NOT NULL,
	n        BIGINT          NOT NULL,
	id       BINARY(16)      NOT NULL UNIQUE,
	units    BIGINT          NOT NULL,
	session  BINARY(16)      NOT NULL,
	since    BIGINT          NOT NULL,
	hold     BIGINT          NOT NULL,           -- the length of its fixed time
	ends     BIGINT          NULL,               -- its own end, if it has one
	flags    INT             NOT NULL,           -- 1 fixed, 2 evicted, 4 revoked, 8 kept: its end is a clean one, 16 stray
	token    BIGINT          NULL,               -- if it is not number + offset
	owner    VARBINARY(1024) NULL,               -- of a fixed one, which may outlive its session
	note     MEDIUMBLOB      NULL,
	PRIMARY KEY (queue, n),
	KEY session (session, queue),
	KEY own_end (queue, ends),
	KEY ends (ends)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}sessions(
	id       BINARY(16)      NOT NULL PRIMARY KEY,
	ends     BIGINT          NOT NULL,
	ttl      BIGINT          NOT NULL,
	gone     TINYINT         NOT NULL DEFAULT 0, -- it is over, whatever its end says
	channel  VARBINARY(64)   NOT NULL,
	owner    VARBINARY(1024) NOT NULL,
	KEY ends (ends)
) ENGINE=InnoDB;

-- What a client is to be told.
CREATE TABLE IF NOT EXISTS {p}news(
	channel  VARBINARY(64)   NOT NULL,
	k        BIGINT          NOT NULL AUTO_INCREMENT UNIQUE,
	at       BIGINT          NOT NULL,
	what     TINYINT         NOT NULL,           -- 1 granted, 2 waits first, 3 asked, 4 removed, 5 queue changed, 6 cell changed
	id       BINARY(16)      NULL,
	name     VARBINARY(528)  NULL,
	token    BIGINT          NOT NULL DEFAULT 0, -- granted; waits first: when to look; asked: the demand
	flags    INT             NOT NULL DEFAULT 0, -- granted: 1 inherited, 2 wanted
	PRIMARY KEY (channel, k)
) ENGINE=InnoDB;

-- Who is to be told once of the next change.
CREATE TABLE IF NOT EXISTS {p}watches(
	what     TINYINT         NOT NULL,           -- as in news
	name     VARBINARY(528)  NOT NULL,
	channel  VARBINARY(64)   NOT NULL,
	PRIMARY KEY (what, name, channel)
) ENGINE=InnoDB;

-- Tickets that must not come any more.
CREATE TABLE IF NOT EXISTS {p}refused(
	id       BINARY(16)      NOT NULL PRIMARY KEY,
	until    BIGINT          NOT NULL,
	KEY until (until)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {p}cells(
	name     VARBINARY(528)  NOT NULL PRIMARY KEY,
	version  BIGINT          NOT NULL,
	present  TINYINT         NOT NULL,
	watched  TINYINT         NOT NULL DEFAULT 0,
	value    MEDIUMBLOB      NULL
) ENGINE=InnoDB;

-- The results of the last minutes.
CREATE TABLE IF NOT EXISTS {p}swaps(
	id       BINARY(16)      NOT NULL PRIMARY KEY,
	at       BIGINT          NOT NULL,
	version  BIGINT          NOT NULL,           -- that was made; 0: it was refused
	KEY at (at)
) ENGINE=InnoDB;

-- Of those who come to a line, and of those who give up, one at a time goes on to the row of
-- the queue: so whoever releases waits for two of a crowd, not for all. The queues whose
-- names have the same remainder share a row for either.
CREATE TABLE IF NOT EXISTS {p}gates(
	n        SMALLINT        NOT NULL PRIMARY KEY
) ENGINE=InnoDB;

INSERT IGNORE INTO {p}gates VALUES {allgates};
