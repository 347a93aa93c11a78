-- Made when all procedures are there: so where the row of meta is, they are. See makers.go.

-- One row.
CREATE TABLE IF NOT EXISTS {p}meta(
	one      TINYINT         NOT NULL PRIMARY KEY,
	layout   INT             NOT NULL,
	floor    BIGINT          NOT NULL,           -- no queue that is made anew has smaller numbers
	longest  BIGINT          NOT NULL            -- the longest TTL of a session ever
) ENGINE=InnoDB;

-- One row, which a restart of the server removes: until when nothing is granted, if the
-- server may have forgotten what it had confirmed.
CREATE TABLE IF NOT EXISTS {p}boot(
	one      TINYINT         NOT NULL PRIMARY KEY,
	until    BIGINT          NOT NULL
) ENGINE=MEMORY;

INSERT IGNORE INTO {p}boot SELECT 1, 0 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {p}meta);

INSERT IGNORE INTO {p}meta VALUES (1, {layout}, 0, {defaultttl});
