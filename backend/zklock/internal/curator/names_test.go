package curator

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const (
	one   = "0123456789abcdef0123456789abcdef"
	two   = "fedcba9876543210fedcba9876543210"
	three = "00112233445566778899aabbccddeeff"
)

// nodes are names of leases: "1/8" is one of the ticket one of 8 permits, "curator" one of Curator's, other words are
// themselves.
func nodes(t *testing.T, words string) (all []string) {
	t.Helper()
	for i, word := range strings.Fields(words) {
		who, limit, ours := strings.Cut(word, "/")
		switch {
		case ours:
			id := map[string]string{"1": one, "2": two, "3": three}[who]
			all = append(all, fmt.Sprintf("_c_%s-of%s-lease-%010d", UUID(id), limit, i))
		case word == "curator":
			all = append(all, fmt.Sprintf("_c_%s-lease-%010d", UUID(three), i))
		default:
			all = append(all, word)
		}
	}
	return all
}

// Promise: the name of a lease says whose it is, its number, and of how many permits it is one; each child of leases is
// one, whatever its name.
func TestNamesOfLeases(t *testing.T) {
	for name, want := range map[string]lease{
		"_c_01234567-89ab-cdef-0123-456789abcdef-of8-lease-0000000007":  {id: one, number: 7, limit: 8},
		"_c_01234567-89AB-CDEF-0123-456789abcdef-of8-lease-0000000007":  {id: one, number: 7, limit: 8},
		"_c_01234567-89ab-cdef-0123-456789abcdef-of8-lease--000000007":  {id: one, number: -7, limit: 8},
		"_c_01234567-89ab-cdef-0123-456789abcdef-of8-lease--2147483648": {id: one, number: -1 << 31, limit: 8},
		"_c_01234567-89ab-cdef-0123-456789abcdef-of8-lease--1000000000": {id: one, number: -1_000_000_000, limit: 8},
		"_c_01234567-89ab-cdef-0123-456789abcdef-lease-0000000007":      {id: one, number: 7},
		"_c_01234567-89ab-cdef-0123-456789abcdef-ofx-lease-0000000007":  {id: one, number: 7},
		"_c_01234567-89ab-cdef-0123-456789abcde-of8-lease-0000000007":   {number: 7},
		"lease-0000000007": {number: 7},
		"7":                {},
		"":                 {},
	} {
		want.node = name
		if got := parse(name); got != want {
			t.Errorf("%q is %+v, not %+v", name, got, want)
		}
	}
}

// Promise: a ticket holds its leases if they all stand and there are no more than permits, in whatever order they were
// made; it is refused if the first lease that says so is of another number of permits.
func TestWhatBecomesOfLeases(t *testing.T) {
	for _, c := range []struct {
		leases string
		limit  int64
		want   verdict
	}{
		{"1/1", 1, holds},
		{"1/2 1/2", 2, holds},
		{"2/2 1/2", 2, holds},
		{"2/1 1/1", 1, full},
		{"curator 1/1", 1, full},
		{"curator 1/2", 2, holds},
		{"anything 1/1", 1, full},
		{"1/1 curator", 1, full}, // it came while this one was on its way
		{"2/2 1/3", 3, refused},
		{"curator 2/2 1/3", 3, refused},
		{"1/3 2/2", 3, holds}, // that one is to be refused
		{"curator", 1, gone},
		{"2/1", 1, gone},
	} {
		all := lentIn(nodes(t, c.leases))
		mine := all.of(one)
		if c.want == gone {
			mine = []string{"_c_" + UUID(one) + "-of1-lease-0000000099"}
		}
		if got := all.judge(mine, c.limit); got != c.want {
			t.Errorf("leases %q of %d: %d, not %d", c.leases, c.limit, got, c.want)
		}
	}
}

// Promise: who waits for the whole semaphore learns that the last one who had it did not leave cleanly; of one permit
// also if that was Curator.
func TestWhoInherits(t *testing.T) {
	for _, c := range []struct {
		data   string
		number int32 // of the first lease
		limit  int64
		want   bool
	}{
		{"", 0, 1, false}, // no one was before it
		{"", 1, 1, true},  // Curator left no mark
		{"", 1, 2, false}, // Curator's permits count as shared ones
		{"R6", 7, 1, false},
		{"R5", 7, 1, true},
		{"R5", 7, 2, false},
		{"R-1", 7, 2, true}, // it holds, or has died
		{"Rules of the house", 7, 2, true},
		{"R", 7, 2, true},
	} {
		all := lent{{number: c.number}}
		if got := all.inherits([]byte(c.data), c.limit); got != c.want {
			t.Errorf("data %q, lease %d of %d: %v", c.data, c.number, c.limit, got)
		}
	}
	for _, n := range []int32{0, 7, unclean, -1 << 31} {
		if got, ok := marked(mark(n)); !ok || got != n {
			t.Errorf("the mark of %d is %d, %v", n, got, ok)
		}
	}
}

// Promise: a semaphore is shown as one line. A ticket of ours has one place, also on its way from locks to leases; one
// of Curator that is on its way has the last lease.
func TestASemaphoreIsShownAsOneLine(t *testing.T) {
	lock := func(id string, units, limit int64) Lock {
		return Lock{Node: id[:4], ID: id, Units: units, Limit: limit}
	}
	theirs := Lock{Node: "lock", ID: two}
	for _, c := range []struct {
		what   string
		locks  []Lock
		leases string
		want   []string // ID, units of capacity, nodes
	}{
		{"nothing", nil, "", nil},
		{"two holders", nil, "1/3 2/3 2/3", []string{"0123 1 of 3, 1", "fedc 2 of 3, 2"}},
		{"a waiter", []Lock{lock(two, 2, 2)}, "1/2", []string{"0123 1 of 2, 1", "fedc 2 of 2, 1"}},
		{"on its way", []Lock{lock(one, 2, 2), lock(two, 1, 2)}, "1/2 1/2", []string{"0123 2 of 2, 3", "fedc 1 of 2, 1"}},
		{"Curator alone", nil, "curator curator", []string{"0011 1 of 2, 1", "0011 1 of 2, 1"}},
		{"Curator waits for a lease, its number not known", []Lock{theirs}, "curator curator", []string{"0011 1 of 1, 1", "0011 1 of 1, 2"}},
		{"Curator waits for a lease", []Lock{theirs}, "1/1 curator", []string{"0123 1 of 1, 1", "0011 1 of 1, 2"}},
		{"Curator is about to make a lease", []Lock{theirs}, "1/2", []string{"0123 1 of 2, 1", "fedc 1 of 2, 1"}},
		{"a waiter says the number", []Lock{theirs, lock(one, 1, 3)}, "curator", []string{"0011 1 of 3, 1", "fedc 1 of 3, 1", "0123 1 of 3, 1"}},
	} {
		var got []string
		for _, s := range line(c.locks, lentIn(nodes(t, c.leases))) {
			got = append(got, fmt.Sprintf("%s %d of %d, %d", s.ID[:4], s.Units, s.Capacity, 1+len(s.More)))
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, not %q", c.what, got, c.want)
		}
	}
}

// Promise: nothing that others write below a semaphore ends the program.
func FuzzLeases(f *testing.F) {
	f.Add("_c_01234567-89ab-cdef-0123-456789abcdef-of8-lease-0000000007", "_c_-lease-")
	f.Add("", "-2147483648")
	f.Fuzz(func(t *testing.T, a, b string) {
		all := lentIn([]string{a, b})
		if n := line([]Lock{{Node: a, ID: b}}, all); len(n) == 0 {
			t.Error("no line")
		}
		for _, n := range all {
			if n.limit > 0 {
				_ = stem(n.id, n.limit)
			}
		}
	})
}
