package zklock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: tickets stand in the order of their numbers, which go on with the smallest one
// after the largest.
func TestTicketsStandInOrderWhereNumbersWrapAround(t *testing.T) {
	want := []int32{1<<31 - 2, 1<<31 - 1, -1 << 31, -1<<31 + 1}
	var nodes []string
	for _, i := range []int{2, 0, 3, 1} {
		nodes = append(nodes, fmt.Sprintf("_c_%d1234567-89ab-cdef-0123-456789abcdef-mutex-lock-%010d", 9-i, want[i]))
	}
	all := parseLine(nodes)
	for i, n := range all.Keys {
		if number(n.Order) != want[i] {
			t.Errorf("the number %d stands where %d should", number(n.Order), want[i])
		}
		if p := all.Place(n); p.Held != (i == 0) {
			t.Errorf("%s is held: %v", n.node, p.Held)
		}
		if again := n.numbered(n.node); again != n.node {
			t.Errorf("%s is renamed to %s", n.node, again)
		}
	}
}

// Promise: a session that servers could not end has no room for another permit: each is a node.
func TestEachLeaseHasItsWeight(t *testing.T) {
	c := &config{semaphores: true}
	q := &queue{path: "/a/locks"}
	weighs := func(units int64) int {
		return c.weighs(q, &exchange.Join{Request: driver.Request{ID: strings.Repeat("0", 32), Kind: driver.Semaphore, Units: units, Capacity: 9}})
	}
	if one, nine := weighs(1), weighs(9); nine < 4*one {
		t.Errorf("one permit weighs %d, nine %d", one, nine)
	}
}
