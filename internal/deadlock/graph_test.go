package deadlock

import (
	"fmt"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a long line is looked through once. With a look from each wait at all others, this would take minutes.
func TestTheWaitsOfALongLineCanBeServed(t *testing.T) {
	q := driver.Queue{Name: "a", Capacity: 1, Members: []driver.Member{{ID: "h", Held: true, Units: 1}}}
	all := waits{}
	for i := range 20_000 {
		id := fmt.Sprintf("%032d", i)
		q.Members = append(q.Members, driver.Member{ID: id, Units: 1})
		all["w"+id] = &Wait{Record: Record{ID: "w" + id, Queue: "a", Units: 1, Ticket: id, Holds: []string{"x" + id}}}
	}
	if stuck := all.stuck(map[queueRef]driver.Queue{{nil, "a"}: q}); len(stuck) > 0 {
		t.Errorf("%d are stuck behind a holder that waits for nothing", len(stuck))
	}
}

// Promise: a wait whose ticket is held is not stuck, though more is held than the capacity and it has not heard of its
// grant.
func TestAWaitThatHasBeenServedIsNotStuck(t *testing.T) {
	s := driver.Queue{Name: "s", Capacity: 1, Members: []driver.Member{{ID: "p", Held: true, Units: 1}, {ID: "own", Held: true, Units: 1}}}
	m := driver.Queue{Name: "m", Capacity: 1, Members: []driver.Member{{ID: "mt", Held: true, Units: 1}}}
	all := waits{
		"w1": &Wait{Record: Record{ID: "w1", Queue: "s", Units: 1, Ticket: "own", Holds: []string{"mt"}}},
		"w2": &Wait{Record: Record{ID: "w2", Queue: "m", Units: 1, Ticket: "w2t", Holds: []string{"p"}}},
	}
	if stuck := all.stuck(map[queueRef]driver.Queue{{nil, "s"}: s, {nil, "m"}: m}); len(stuck) > 0 {
		t.Errorf("%d are stuck", len(stuck))
	}
}

// Promise: a wait for more permits than there are by now is kept waiting by nobody.
func TestAWaitForMoreThanThereIsIsNotStuck(t *testing.T) {
	q := driver.Queue{Name: "s", Capacity: 1, Members: []driver.Member{{ID: "own", Units: 2}}}
	w := &Wait{Record: Record{ID: "w", Queue: "s", Units: 2, Ticket: "own", Holds: []string{"x"}}}
	if stuck := (waits{"w": w}).stuck(map[queueRef]driver.Queue{w.queue(): q}); len(stuck) > 0 {
		t.Errorf("%d are stuck", len(stuck))
	}
}
