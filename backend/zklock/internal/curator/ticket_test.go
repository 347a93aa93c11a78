package curator

import (
	"fmt"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: tickets stand in the order of their numbers, which go on with the smallest one
// after the largest.
func TestTicketsStandInOrderWhereNumbersWrapAround(t *testing.T) {
	want := []int32{1<<31 - 2, 1<<31 - 1, -1 << 31, -1<<31 + 1}
	var nodes []string
	for _, i := range []int{2, 0, 3, 1} {
		nodes = append(nodes, fmt.Sprintf("_c_%d1234567-89ab-cdef-0123-456789abcdef-mutex-lock-%010d", 9-i, want[i]))
	}
	all := parseAll(nodes)
	var got []int32
	for _, n := range all {
		got = append(got, n.number)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("they stand as %d", got)
	}
	for i := range all {
		if all.holds(i) != (i == 0) {
			t.Errorf("%d holds: %v", all[i].number, i != 0)
		}
	}
}

// Promise: to earlier releases, which read the name of a number as that of a ticket, it is an election of another library: they
// refuse mutexes, semaphores, readers, writers and members because of it, and never remove it.
func TestANumberIsALatchOfAnotherLibrary(t *testing.T) {
	s := setting{capacity: 8, kept: true, held: upTo{true, 3}, unsure: upTo{true, 5}}
	head, w, number, ok := split(s.stem() + "0000000007")
	if id, _ := identity(head[len("_c_"):]); !ok || number != 7 || id != "" {
		t.Fatalf("%q %d %v: the ID %q", head, number, ok, id)
	}
	latch := name{kind: w.kind, units: 1, capacity: 1, layout: w.layout, plain: w.kind != driver.RWMutex}
	for _, text := range []string{"mutex-lock-", "permits3of8-lock-", "__READ__", "__WRIT__", "member-lock-"} {
		n, _ := parse("_c_01234567-89ab-cdef-0123-456789abcdef-" + text + "0000000008")
		line := line{latch, n}
		if _, other := line.other(1); !other {
			t.Errorf("%s waits behind it, and takes those for intruders who stand in between", text)
		}
		if _, refused := (line[1:]).intruder(0); refused {
			t.Errorf("%s is refused alone", text)
		}
	}
	if _, refused := (line{latch, latch}).intruder(1); refused {
		t.Error("it may be removed")
	}
}
