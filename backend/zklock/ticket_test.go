package zklock

import (
	"fmt"
	"testing"
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
