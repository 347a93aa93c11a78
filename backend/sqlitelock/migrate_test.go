package sqlitelock

import (
	"fmt"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/fileclock"
)

// Promise: a file of the first layout is used on, with its values, its tokens and the permits that were set. While
// there are leases in it, it is refused, in one line that says what to do: programs of both layouts never both hold. A
// program of the first layout that has it open can do nothing with it afterwards.
func TestAFileOfTheFirstLayout(t *testing.T) {
	const raised = 1 << 50
	for what, row := range map[string]string{
		"a session":              "INSERT INTO session(id, post, owner, ttl, expires) VALUES ('x', 'x', 'x', 1, 1 << 62)",
		"a lease of a fixed end": "INSERT INTO ticket(queue, n, id, units, sid, since, hold, ends, wall, flags) VALUES ('q', 1, 'x', 1, 1, 1, 1, 1, 1 << 62, 1)",
	} {
		path := newFile(t)
		boot := errtest.Must(fileclock.New())(t).Boot
		old := errtest.Must(openConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate))(t)
		noError(t, script(old, firstLayout+fmt.Sprintf(`
			INSERT INTO queue VALUES ('q', 'mutex', 1, %d, %[1]d, 10, 0, 0, 0, 0, 1, 0, NULL, 0, 0, 1, NULL), ('s', 'semaphore, resized', 7, 5, 5, 0, 0, 0, 0, 0, 1, 0, NULL, 0, 0, 1, NULL);
			UPDATE file SET boot = '%[2]s';
			INSERT INTO cell VALUES ('c', 5, 1, 1, x'61'); INSERT INTO watch VALUES ('cell', 'c', 'x');`, raised, boot)+row))
		_, err := openStore(t.Context(), path, config{mode: defaultMode})
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "end all programs that use it") || strings.Contains(err.Error(), "\n") {
			t.Fatalf("with %s: %v", what, err)
		}
		noError(t, script(old, "UPDATE session SET expires = 1; UPDATE ticket SET wall = 1")) // they have expired
		d := start(t, path)
		s := begin(t, d)
		for _, name := range []string{"q", "new"} {
			if tk := s.mustJoin(t, mutex(name), true); tk.Token <= raised+10 {
				t.Errorf("%s has the token %d after %d", name, tk.Token, raised+10)
			}
		}
		if q := errtest.Must(d.Follow(t.Context(), "s", ""))(t); q.Capacity != 7 || !q.Resized {
			t.Errorf("the permits that were set: %+v", q)
		}
		if c := errtest.Must(d.Load(t.Context(), "c"))(t); c.Version != 5 || string(c.Value) != "a" {
			t.Errorf("the value: %+v", c)
		}
		if err := old.exec("INSERT INTO session(id, post, owner, ttl, expires) VALUES ('x', 'x', 'x', 1, 1)"); err == nil {
			t.Error("a program of the first layout has opened a session")
		}
		noError(t, old.Close())
	}
}

const firstLayout = `
PRAGMA journal_mode = WAL;
CREATE TABLE file(one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, floor INTEGER NOT NULL, opened INTEGER NOT NULL);
INSERT INTO file VALUES (1, '', 0, 0);
CREATE TABLE session(sid INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, post TEXT NOT NULL, owner TEXT NOT NULL, ttl INTEGER NOT NULL, expires INTEGER NOT NULL);
CREATE INDEX session_expires ON session(expires);
CREATE TABLE queue(name TEXT PRIMARY KEY, kind TEXT NOT NULL, capacity INTEGER NOT NULL, last INTEGER NOT NULL, granted INTEGER NOT NULL,
	shift INTEGER NOT NULL, used INTEGER NOT NULL, tickets INTEGER NOT NULL, waiting INTEGER NOT NULL, unclean INTEGER NOT NULL, version INTEGER NOT NULL,
	watched INTEGER NOT NULL, id TEXT, units INTEGER NOT NULL, sid INTEGER NOT NULL, since INTEGER NOT NULL, note BLOB) WITHOUT ROWID;
CREATE TABLE ticket(queue TEXT NOT NULL, n INTEGER NOT NULL, id TEXT NOT NULL, units INTEGER NOT NULL, sid INTEGER NOT NULL, since INTEGER NOT NULL,
	note BLOB, hold INTEGER NOT NULL, ends INTEGER, wall INTEGER, flags INTEGER NOT NULL, owner TEXT, token INTEGER, PRIMARY KEY (queue, n)) WITHOUT ROWID;
CREATE INDEX ticket_ends ON ticket(ends) WHERE ends IS NOT NULL;
CREATE TABLE cell(name TEXT PRIMARY KEY, version INTEGER NOT NULL, present INTEGER NOT NULL, watched INTEGER NOT NULL, value BLOB);
CREATE TABLE swap(id TEXT PRIMARY KEY, at INTEGER NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX swap_at ON swap(at);
CREATE TABLE watch(what TEXT NOT NULL, name TEXT NOT NULL, post TEXT NOT NULL, PRIMARY KEY (what, name, post)) WITHOUT ROWID;
PRAGMA application_id = 0x496c6f6b;
PRAGMA user_version = 1;
`
