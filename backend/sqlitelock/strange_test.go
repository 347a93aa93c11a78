package sqlitelock

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

// Promise: whatever stands in the rows of a queue and its tickets, others see and use the other
// queues, and what looks at this one ends.
func TestGarbageInAQueueHidesNoOther(t *testing.T) {
	path := newFile(t)
	d, looker := start(t, path), start(t, path)
	s := begin(t, d)
	user := begin(t, looker)
	well := s.mustJoin(t, mutex("well"), true)
	data := append([]string{"NULL", "-9223372036854775808", "1000000000", "x'ff'"}, garbage...)
	for _, lone := range []bool{true, false} {
		for _, table := range []string{"queue", "ticket"} {
			for _, column := range columns(t, d, table) {
				for _, v := range data {
					what := fmt.Sprintf("%s.%s = %s, lone: %v", table, column, v, lone)
					held := s.mustJoin(t, mutex("harmed"), true)
					if !lone {
						s.mustJoin(t, mutex("harmed"), false)
					}
					where := map[string]string{"queue": "name", "ticket": "queue"}[table]
					_ = d.change(t.Context(), fast, func(x *tx) error { // some are refused
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
}

// columns are those of a table.
func columns(t *testing.T, d *Driver, table string) (all []string) {
	t.Helper()
	if err := d.view(t.Context(), func(c conn, _ moment) error {
		return c.all("SELECT name FROM pragma_table_info(?)", func(s *sqlite.Stmt) bool {
			all = append(all, s.ColumnText(0))
			return true
		}, table)
	}); err != nil {
		t.Fatal(err)
	}
	return all
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
