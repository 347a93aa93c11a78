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
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"zombiezen.com/go/sqlite"
)

// columns are those of a table.
func columns(t *testing.T, d *client, table string) (all []string) {
	t.Helper()
	noError(t, d.store.view(t.Context(), func(c conn, _ time.Time) error {
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

	strangeNames(t, d, "a", "CAST('o' || i AS BLOB)", 10*batch)
	other.mustLeave(t, other.mustJoin(t, mutex("b"), true))
	for _, name := range []string{"a", "b"} {
		rewrite(t, d, name, func(q *queue) { long(q); q.Tickets, q.Unclean, q.Tombstones = nil, false, nil })
	}
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

// Promise: names, rows and followers that are longer than anything written here cost those who look at
// all there is no memory either.
func TestALongNameCostsNoMemory(t *testing.T) {
	path := newFile(t)
	d, looker := start(t, path), start(t, path)
	s := begin(t, d)
	const long = 16 << 20
	for _, column := range []string{"queue.name", "queue.data", "cell.name", "cell.followers"} {
		s.mustJoin(t, mutex("q"), true)
		errtest.Must(d.Swap(t.Context(), driver.Swap{ID: exchange.NewID(), Name: "a"}))(t)
		table, name, _ := strings.Cut(column, ".")
		sql(t, d, fmt.Sprintf("UPDATE %s SET %s = CAST(zeroblob(%d) AS TEXT)", table, name, long))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range looker.Queues(t.Context(), "") {
		}
		for range looker.Cells(t.Context(), "") {
		}
		_, _ = looker.Load(t.Context(), "a")
		_, _ = looker.Follow(t.Context(), "q", "")
		integrity(t, looker.store)
		errtest.Is(t, looker.Raise(t.Context(), "", 1<<40), nil)
		looker.store.forgetQueues(t.Context())
		looker.store.forgetFollowers(t.Context())
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > long/2 {
			t.Errorf("%s: a look has taken %d MiB", column, (after.TotalAlloc-before.TotalAlloc)>>20)
		}
		for _, table := range []string{"queue", "cell", "swap"} {
			sql(t, d, "DELETE FROM "+table)
		}
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

// Promise: the doctor finds a holder behind a waiter, and holders of more than there is.
func TestHoldersThatDoNotFit(t *testing.T) {
	holds, waits := rows.Ticket{Units: 1, Held: true}, rows.Ticket{Units: 1}
	for _, c := range []struct {
		kind    driver.Kind
		tickets []*rows.Ticket
		fit     bool
	}{
		{driver.Mutex, []*rows.Ticket{&holds, &waits, &waits}, true},
		{driver.Mutex, []*rows.Ticket{&holds, &holds}, false},
		{driver.Mutex, []*rows.Ticket{&waits, &holds}, false},
		{driver.Semaphore, []*rows.Ticket{&holds, &holds}, true},
	} {
		q := &queue{}
		q.Kind, q.Capacity, q.Tickets = c.kind, 1, c.tickets
		if q.fits() != c.fit {
			t.Errorf("%s, %d tickets: they are said to fit: %v", c.kind, len(c.tickets), q.fits())
		}
	}
}
