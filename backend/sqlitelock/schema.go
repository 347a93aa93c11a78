package sqlitelock

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/fileclock"
)

// applicationID marks our files in the SQLite header.
const applicationID = 0x496c6f6b // "Ilok"

// layout is the version of the schema. A file with a larger one is refused.
const layout = 2

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
` + queues

// queues are the tables that layout 1 has otherwise.
const queues = `
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

var errOld = errors.New("the file has an earlier layout")

// migrate gives a file of layout 1 this layout, unless there are leases in it. Programs of that layout cannot use it
// from then on.
func (f *file) migrate(c conn) (err error) {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if !c.AutocommitEnabled() {
			err = errors.Join(err, c.exec("ROLLBACK"))
		}
	}()
	clock, err := fileclock.New()
	if err != nil {
		return err
	}
	leases := int64(0)
	const standing = `SELECT (SELECT count(*) FROM session, file WHERE boot = ?1 AND expires > 0 AND expires + ttl > ?2) + (SELECT count(*) FROM ticket WHERE flags & 1 AND wall > ?3)`
	if err := c.one(standing, func(r *sqlite.Stmt) { leases = r.ColumnInt64(0) }, clock.Boot, clock.Now(), time.Now().UnixNano()); err != nil {
		return err
	}
	if leases > 0 {
		return driver.Permanent(fmt.Errorf("%s is used by an earlier version of this program, or has leases of it: end all programs that use it, wait until the leases have expired, and start again", f.path))
	}
	var kept []rows.Queue
	if err := c.all("SELECT name, capacity FROM queue WHERE kind = 'semaphore, resized' AND "+named, func(r *sqlite.Stmt) bool {
		kept = append(kept, rows.Queue{Name: r.ColumnText(0), Kind: driver.Semaphore, Capacity: r.ColumnInt64(1), Resized: true})
		return true
	}); err != nil {
		return err
	}
	if err := script(c, `UPDATE file SET floor = max(floor, (SELECT coalesce(max(last + shift), 0) FROM queue));
		DROP TABLE session; DROP TABLE queue; DROP TABLE ticket; DROP TABLE watch;`+queues+`
		ALTER TABLE file DROP COLUMN boot; ALTER TABLE file DROP COLUMN opened;
		ALTER TABLE cell DROP COLUMN watched; ALTER TABLE cell ADD COLUMN followers TEXT NOT NULL DEFAULT ''`); err != nil {
		return err
	}
	for i := range kept {
		q := queue{Queue: kept[i]}
		var out rows.Codec
		q.fields(&out)
		if err := c.exec("INSERT INTO queue(name, data) VALUES (?,?)", q.Name, out.Out); err != nil {
			return err
		}
	}
	return script(c, fmt.Sprintf("PRAGMA user_version = %d; COMMIT", layout))
}
