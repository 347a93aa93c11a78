-- The tables of Interlock, version 3. @name stands for the name of a table or of a
-- function, with its schema and prefix; LOCKING for UNLOGGED, or for nothing. Times
-- are microseconds since 1970, by the clock of this server; names of units and
-- numbers are those of Interlock's package driver.

CREATE TABLE @meta(                -- one row
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	version     integer NOT NULL,
	unlogged    boolean NOT NULL,
	incarnation bigint NOT NULL,   -- how often the unlogged tables were found empty
	high        bigint NOT NULL,   -- no number as large as this was given out, but in queues that have a larger floor
	longest     bigint NOT NULL,   -- the longest TTL of all sessions ever
	timeline    text               -- of the server when incarnation changed last: see timeline
);

CREATE LOCKING TABLE @sentinel(    -- one row; none if a crash has emptied the unlogged tables
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	incarnation bigint NOT NULL,
	safe        bigint NOT NULL,   -- holders of before the crash hold until then; 0: no longer
	floor       bigint NOT NULL    -- no queue that is made anew has smaller numbers
);

CREATE LOCKING TABLE @session(
	id          uuid PRIMARY KEY,
	channel     text NOT NULL,     -- where its client listens; empty: nowhere
	owner       text NOT NULL,
	ttl         bigint NOT NULL,
	expires     bigint NOT NULL,   -- 0: it was closed
	over        boolean NOT NULL   -- somebody has acted upon its end
) WITH (fillfactor = 50);
CREATE INDEX ON @session (expires);

CREATE LOCKING TABLE @queue(
	name        text COLLATE "C" PRIMARY KEY,
	kind        text NOT NULL,
	capacity    bigint NOT NULL,
	last        bigint NOT NULL,   -- the largest number that was given out
	granted     bigint NOT NULL,   -- tickets up to this number are held
	"offset"    bigint NOT NULL,   -- token = number + offset
	most        bigint NOT NULL,   -- all numbers are smaller; larger ones need to be provided for a crash first
	used        bigint NOT NULL,   -- units of the held tickets
	tickets     bigint NOT NULL,
	waiting     bigint NOT NULL,   -- how many of them wait
	unclean     boolean NOT NULL,  -- the last exclusive holder did not leave cleanly
	watched     boolean NOT NULL,  -- there may be rows in watch
	frozen      bigint NOT NULL,   -- nothing is granted before, while sentinel has a grace
	slow        bigint NOT NULL,   -- until then there may be rows in refused, or it is frozen; FOREVER: it was resized
	id          uuid,              -- the only ticket, if it is kept here; its number is granted
	units       bigint,
	session     uuid,
	since       bigint,
	note        bytea
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE LOCKING TABLE @ticket(
	queue       text COLLATE "C" NOT NULL,
	n           bigint NOT NULL,
	id          uuid NOT NULL,
	units       bigint NOT NULL,
	session     uuid NOT NULL,
	since       bigint NOT NULL,
	note        bytea,
	hold        bigint NOT NULL,   -- the length of its fixed time
	ends        bigint,            -- its own end, if it has one
	flags       integer NOT NULL,  -- 1 fixed, 2 evicted, 4 revoked, 8 kept (its end is a clean one), 16 stray
	owner       text,              -- of a fixed one, which may outlive its session
	token       bigint,            -- if it is not number + offset
	PRIMARY KEY (queue, n)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX ON @ticket (id);
CREATE INDEX ON @ticket (session, queue);
CREATE INDEX ON @ticket (queue, ends) WHERE ends IS NOT NULL;

CREATE LOCKING TABLE @refused(     -- tickets that must not come any more
	id          uuid PRIMARY KEY,
	until       bigint NOT NULL
);

CREATE LOCKING TABLE @watch(       -- who is to be told once of the next change
	what        text NOT NULL,     -- queue or cell
	name        text COLLATE "C" NOT NULL,
	channel     text NOT NULL,
	since       bigint NOT NULL,
	PRIMARY KEY (what, name, channel)
);

CREATE TABLE @fixed(               -- tickets with a fixed end, which outlast a crash
	id          uuid PRIMARY KEY,
	queue       text COLLATE "C" NOT NULL,
	kind        text NOT NULL,
	capacity    bigint NOT NULL,
	units       bigint NOT NULL,
	session     uuid NOT NULL,
	since       bigint NOT NULL,
	note        bytea,
	hold        bigint NOT NULL,
	ends        bigint NOT NULL,
	flags       integer NOT NULL,
	owner       text NOT NULL,
	token       bigint NOT NULL
);
CREATE INDEX ON @fixed (queue);

CREATE TABLE @floor(               -- of queues that were raised or resized, or whose numbers are far ahead of the clock
	queue       text COLLATE "C" PRIMARY KEY,
	floor       bigint NOT NULL,   -- those after a crash have larger numbers
	"offset"    bigint NOT NULL,   -- of the queue; it never falls
	capacity    bigint NOT NULL DEFAULT 0 -- that of resize; 0: none is kept
);

CREATE TABLE @cell(
	name        text COLLATE "C" PRIMARY KEY,
	version     bigint NOT NULL,
	present     boolean NOT NULL,
	value       bytea
);

CREATE TABLE @swap(                -- the results of the last minutes
	id          uuid PRIMARY KEY,
	at          bigint NOT NULL,
	version     bigint NOT NULL    -- that was made; 0: it was refused
);
CREATE INDEX ON @swap (at);
