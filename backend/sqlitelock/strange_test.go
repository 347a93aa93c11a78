package sqlitelock

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"zombiezen.com/go/sqlite"
)

// Promise: whatever stands in the rows of a queue and its tickets, others see and use the other
// queues, and what looks at this one ends. (The row of a queue with a waiter is in the rule Member.)
func TestGarbageInAQueueHidesNoOther(t *testing.T) {
	path := newFile(t)
	d, looker := start(t, path), start(t, path)
	s := begin(t, d)
	user := begin(t, looker)
	well := s.mustJoin(t, mutex("well"), true)
	data := append([]string{"NULL", "-9223372036854775808", "1000000000", "x'ff'"}, garbage...)
	for _, table := range []string{"queue", "ticket"} {
		for _, column := range columns(t, d, table) {
			for _, v := range data {
				what := fmt.Sprintf("%s.%s = %s", table, column, v)
				held := s.mustJoin(t, mutex("harmed"), true)
				if table == "ticket" { // else there is none: the only ticket of a queue stands in its row
					s.mustJoin(t, mutex("harmed"), false)
				}
				where := map[string]string{"queue": "name", "ticket": "queue"}[table]
				_ = d.store.change(t.Context(), fast, func(x *tx) error { // some are refused
					return x.exec(fmt.Sprintf("UPDATE OR IGNORE %s SET %s = %s WHERE %s = 'harmed'", table, column, v, where))
				})
				seen := false
				for q, err := range looker.Queues(t.Context(), "") {
					if err != nil {
						t.Errorf("%s: the list ends with: %v", what, err)
					}
					seen = seen || q.Name == "well" && len(q.Members) == 1 && q.Members[0].ID == well.ID
				}
				if !seen {
					t.Errorf("%s: the other queue is not in the list", what)
				}
				_, _ = looker.Follow(t.Context(), "harmed", "")
				r := mutex("harmed")
				r.NoWait = true
				_, _ = user.Join(t.Context(), r)
				_ = user.Leave(t.Context(), driver.Ticket{Queue: r.Queue, ID: r.ID}, true)
				_ = looker.Ask(t.Context(), "harmed", held.ID, driver.Revoke)
				if _, err := s.Renew(t.Context(), []driver.Ticket{well}); err != nil {
					t.Errorf("%s: a heartbeat says %v", what, err)
				}
				for _, text := range []string{"DELETE FROM ticket", "DELETE FROM queue WHERE name <> 'well'"} {
					sql(t, d, text)
				}
				_, _ = s.Renew(t.Context(), []driver.Ticket{well}) // forgets the others
			}
		}
	}
}

// columns are those of a table.
func columns(t *testing.T, d *client, table string) (all []string) {
	t.Helper()
	noError(t, d.store.view(t.Context(), func(c conn, _ moment) error {
		return c.all("SELECT name FROM pragma_table_info(?)", func(s *sqlite.Stmt) bool {
			all = append(all, s.ColumnText(0))
			return true
		}, table)
	}))
	return all
}

// strangeNames puts rows into queue and cell like those of a name, with names that are made of a
// number i.
func strangeNames(t *testing.T, d *client, like, made string, most int) {
	t.Helper()
	for _, table := range []string{"queue", "cell"} {
		list := strings.Join(columns(t, d, table), ", ")
		sql(t, d, fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) INSERT INTO %s(%s) SELECT %s FROM %s, n WHERE name = '%s'",
			most, table, list, strings.Replace(list, "name", made, 1), table, like))
	}
}

// listed are the names in the lists. One of more than 1,000 has no end.
func listed(t *testing.T, d *client) (queues, cells []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	for q, err := range d.Queues(ctx, "") {
		if queues = append(queues, q.Name); err != nil || len(queues) > 1000 {
			t.Fatal("the list of queues has no end, or: ", err)
		}
	}
	for name, err := range d.Cells(ctx, "") {
		if cells = append(cells, name); err != nil || len(cells) > 1000 {
			t.Fatal("the list of cells has no end, or: ", err)
		}
	}
	return queues, cells
}

// Promise: rows whose names nobody can have given hide no other: a list ends, and what is done for
// all names is done for all others.
func TestAStrangeNameHidesNoOther(t *testing.T) {
	path := newFile(t)
	d, looker := start(t, path), start(t, path)
	s, other := begin(t, d), begin(t, looker)
	s.mustJoin(t, mutex("a"), true)
	for _, name := range []string{"a", "well"} {
		errtest.Must(d.Swap(t.Context(), driver.Swap{ID: exchange.NewID(), Name: name}))(t)
	}
	well := other.mustJoin(t, mutex("well"), true)
	strangeNames(t, d, "a", "CAST('n' || i AS BLOB)", 300)
	strangeNames(t, d, "a", "printf('%600d', i)", 300)
	queues, cells := listed(t, looker)
	if fmt.Sprint(queues, cells) != "[a well] [a well]" {
		t.Errorf("listed: %.300q %.300q", queues, cells)
	}
	if f := integrity(t, looker.store); f.Status != driver.Fail || !strings.Contains(f.Detail, "nobody") {
		t.Errorf("%+.1000v", f)
	}

	errtest.Is(t, d.Raise(t.Context(), "", 1<<40), nil)
	errtest.Is(t, s.Close(t.Context()), nil)
	if n := count(t, d, "SELECT count(*) FROM queue WHERE name GLOB 'n*' AND typeof(name) = 'text'"); n > 0 {
		t.Errorf("%d queues were made of the names", n)
	}

	long := func() {
		t.Helper()
		sql(t, d, "UPDATE queue SET id = NULL, tickets = 0, unclean = 0, watched = 0, since = -9000000000000000 WHERE name <> 'well'")
	}
	strangeNames(t, d, "a", "CAST('o' || i AS BLOB)", 10*batch)
	long()
	d.store.forgetQueues(t.Context())
	other.mustLeave(t, other.mustJoin(t, mutex("b"), true))
	long()
	for range 2 { // to the end, and from the beginning
		d.store.forgetQueues(t.Context())
	}
	if n := count(t, d, "SELECT count(*) FROM queue WHERE name IN ('a', 'b')"); n > 0 {
		t.Error("a queue that was empty for long is not forgotten")
	}
	if _, err := other.Renew(t.Context(), []driver.Ticket{well}); err != nil {
		t.Error(err)
	}
}

// Promise: a list ends, too, in a file that keeps texts in another encoding, where a name that is
// read need not be the one that is kept.
func TestAListEndsInAnyEncoding(t *testing.T) {
	path := newFile(t)
	c := errtest.Must(openConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate))(t)
	for _, text := range []string{"PRAGMA encoding = 'UTF-16le'", "CREATE TABLE x(y)", "DROP TABLE x"} {
		noError(t, c.exec(text))
	}
	noError(t, c.Close())
	d := start(t, path)
	begin(t, d).mustJoin(t, mutex("a"), true)
	errtest.Must(d.Swap(t.Context(), driver.Swap{ID: exchange.NewID(), Name: "a"}))(t)
	strangeNames(t, d, "a", "CAST(x'ffdbffff' || i AS TEXT)", 150) // read as U+10FFFF, which is before them
	if queues, cells := listed(t, d); queues[0] != "a" || cells[0] != "a" {
		t.Errorf("%.300q %.300q", queues, cells)
	}
}

// Promise: what a member writes that is longer than anything written here costs those who look no
// memory.
func TestALongNoteCostsNoMemory(t *testing.T) { // memory is counted for the process
	path := newFile(t)
	d, looker := start(t, path), start(t, path)
	s := begin(t, d)
	held := s.mustJoin(t, mutex("q"), true)
	s.mustJoin(t, mutex("q"), false)
	const long = 100 << 20
	for _, text := range []string{"UPDATE queue SET note = zeroblob(%d)", "UPDATE ticket SET note = zeroblob(%d)", "UPDATE session SET owner = CAST(zeroblob(%d) AS TEXT)"} {
		sql(t, d, fmt.Sprintf(text, long))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	q, err := looker.Follow(t.Context(), "q", "")
	if err != nil || len(q.Members) != 2 || q.Members[0].ID != held.ID {
		t.Errorf("%+v %v", q, err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > long/2 {
		t.Errorf("a look has taken %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
}

// Promise: names, kinds and IDs that are longer than anything written here cost those who look at
// all there is no memory either.
func TestALongNameCostsNoMemory(t *testing.T) {
	path := newFile(t)
	d, looker := start(t, path), start(t, path)
	s := begin(t, d)
	const long = 16 << 20
	for _, column := range []string{"queue.name", "queue.kind", "queue.id", "ticket.queue", "ticket.id", "cell.name"} {
		s.mustJoin(t, mutex("lone"), true)
		s.mustJoin(t, mutex("two"), true)
		s.mustJoin(t, mutex("two"), false)
		errtest.Must(d.Swap(t.Context(), driver.Swap{ID: exchange.NewID(), Name: "a"}))(t)
		table, name, _ := strings.Cut(column, ".")
		first := fmt.Sprintf("(SELECT min(%s) FROM %s)", name, table)
		sql(t, d, fmt.Sprintf("UPDATE %s SET %s = CAST(zeroblob(%d) AS TEXT) WHERE %s = %s", table, name, long, name, first))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		listed(t, looker)
		integrity(t, looker.store)
		errtest.Is(t, looker.Raise(t.Context(), "", 1<<40), nil)
		looker.store.forgetQueues(t.Context())
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > long/2 {
			t.Errorf("%s: a look has taken %d MiB", column, (after.TotalAlloc-before.TotalAlloc)>>20)
		}
		for _, table := range []string{"queue", "ticket", "cell"} {
			sql(t, d, "DELETE FROM "+table)
		}
		_, _ = s.Renew(t.Context(), nil) // forgets them
	}
}

// integrity is what the doctor finds out about the queues.
func integrity(t *testing.T, s *store) driver.Finding {
	t.Helper()
	all := s.Check(t.Context())
	i := slices.IndexFunc(all, func(f driver.Finding) bool { return f.Check == "integrity" })
	if i < 0 {
		t.Fatalf("it is not looked at: %v", all)
	}
	return all[i]
}
