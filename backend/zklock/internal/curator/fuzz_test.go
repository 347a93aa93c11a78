package curator

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

var kinds = []driver.Kind{driver.Mutex, driver.RWMutex, driver.Semaphore, driver.Election, driver.Barrier}

// Promise: every name that is allowed is a path that ZooKeeper allows, another one than
// that of any other name, and no part of it is taken for a ticket or for what is reserved.
func FuzzNames(f *testing.F) {
	for _, name := range []string{
		"a", "a/b", "_interlock", "_interlock/cells", "a/_interlock", "zookeeper", "zookeeper/quota", "a/zookeeper", "%zookeeper",
		"%7Aookeeper", "_c_x", "%5Fc_x", "a%2Fb", "a%", "%", "%%", "%2", "100%", "%ZZ", "%zz", "lock-0000000001", "a/block-0000000001",
		"_c_/__READ__0000000001", "_c_o__READ__0000000001", "lock--0000000001", "lock-00000000%31", "__lock__0000000001", "latch-2147483647", "x__rlock__9999999999",
		"lock-0000000001/x", "\u00a0", "\u200b", "ö", "日本", "😀/lock-0000000001", "\U000e0001", "~", " ", ".a", "a.", "...",
	} {
		f.Add(name, name+"1")
		f.Add(name, "%"+name)
	}
	c := &config{root: "/locks"}
	f.Fuzz(func(t *testing.T, a, b string) {
		if driver.CheckName(a) == nil {
			path := c.node(a)
			if got := named(path[len(c.root)+1:]); got != a {
				t.Errorf("%q is %q, which is %q", a, path, got)
			}
			for i, segment := range strings.Split(path[len(c.root)+1:], "/") {
				if _, ok := parse(segment); ok || strings.HasPrefix(segment, "_c_") {
					t.Errorf("%q: %q is taken for a ticket", a, segment)
				}
				if i == 0 && (segment == reserved || segment == "zookeeper") {
					t.Errorf("%q: %q is reserved", a, segment)
				}
				allowed(t, segment)
			}
			if b != a && driver.CheckName(b) == nil && c.node(b) == path {
				t.Errorf("%q and %q are both %q", a, b, path)
			}
		}
		if driver.CheckCell(a) == nil {
			segment := flat(a)
			if strings.Contains(segment, "/") {
				t.Errorf("the cell %q is %q", a, segment)
			}
			allowed(t, segment)
			if b != a && driver.CheckCell(b) == nil && flat(b) == segment {
				t.Errorf("the cells %q and %q are both %q", a, b, segment)
			}
		}
	})
}

func named(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = unescape(parts[i])
	}
	return strings.Join(parts, "/")
}

// allowed checks what PathUtils.validatePath does.
func allowed(t *testing.T, segment string) {
	if segment == "" || segment == "." || segment == ".." {
		t.Errorf("the segment %q", segment)
	}
	for _, r := range segment {
		if r == 0 || r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			t.Errorf("%q has %U", segment, r)
		}
	}
}

// Promise: whatever children a node has, their names are read without harm, and what is
// added up of them does not run over.
func FuzzParse(f *testing.F) {
	id := "0123456789abcdef0123456789abcdef"
	for _, node := range []string{
		"", "-", "lock-", "lock-0000000001", "0000000001", "lock--2147483648", "lock-+000000001", "lock- 000000001", "lock-99999999999",
		"_c_" + uuid(id) + "-lock-0000000001", "_c_" + uuid(id) + "-mutex-lock-0000000001", "_c_" + id + "-lock-0000000001",
		id + "-lock-0000000001", uuid(id) + "__lock__0000000001", "_c_" + uuid(id) + "-write-__lock__0000000001",
		"_c_" + uuid(id) + "-permits3of8-lock-0000000001", "_c_" + uuid(id) + "-permits-3of8-lock-0000000001",
		"_c_" + uuid(id) + "-permits99999999999999999999of8-lock-0000000001", "_c_" + uuid(id) + "-permitsof-lock-0000000001",
		"_c_" + uuid(id) + "-permits9223372036854775807of1-lock-0000000001", "_c_" + uuid(id) + "-permits+0of0-lock-0000000001",
		"_c_" + uuid(id) + "-until-kept-evicted-lock-0000000001", "_c_" + uuid(id) + "-until99999999999999999999-lock-0000000001",
		"_c_" + uuid(id) + "-member-__WRIT__0000000001", "_c_ZZ" + uuid(id)[2:] + "-lock-0000000001", "\xff\xfelock-0000000001",
	} {
		f.Add(node, "_c_"+uuid(id)+"-permits3of8-lock-0000000002")
	}
	f.Add("_c_"+uuid(id)+"-permits3of8-lock-0000000001", "_c_set2_held0_unsure0-latch-0000000002")
	f.Fuzz(func(t *testing.T, a, b string) {
		n, ok := parse(a)
		if !ok {
			return
		}
		if n.node != a || n.id != "" && driver.CheckID(n.id) != nil || n.units < 1 || n.units > n.capacity {
			t.Fatalf("%q is %+v", a, n)
		}
		all := parseAll([]string{b, a, b, a})
		for i := range all {
			if _, other := all.other(i); !all.holds(i) && !other && all[i].units <= all[i].capacity {
				if v := all.view(i); len(v.obstacles) == 0 {
					t.Fatalf("%q waits for nobody in %+v", all[i].node, all)
				}
			}
			_, _ = all.exclusiveBefore(i)
		}
	})
}

// Promise: the name of a ticket says all that was put into it, in every layout, and
// Curator and kazoo find its number.
func FuzzStem(f *testing.F) {
	for i := range kinds {
		for l := range byte(8) {
			f.Add([]byte("0123456789abcdef"), byte(i), l, int64(3), int64(8), int64(0), int32(0), false, false)
			f.Add([]byte{0xff}, byte(i), l, int64(1), int64(math.MaxInt64), int64(1<<41), int32(math.MaxInt32), true, false)
			f.Add([]byte{}, byte(i), l, int64(driver.MaxCapacity), int64(driver.MaxCapacity), int64(1), int32(7), true, true)
		}
	}
	f.Fuzz(func(t *testing.T, id []byte, kind, l byte, units, capacity, end int64, number int32, kept, evicted bool) {
		var raw [16]byte
		copy(raw[:], id)
		want := name{id: hex.EncodeToString(raw[:]), kind: kinds[int(kind)%len(kinds)], number: number & math.MaxInt32, until: end & math.MaxInt64}
		want.kept, want.evicted = kept && want.until != 0, evicted && want.until != 0
		r := driver.Request{ID: want.id, Kind: want.kind, Units: units, Capacity: capacity}
		if driver.CheckRequest(&r) != nil || checkShape(&r) != nil {
			switch r.Kind {
			case driver.Semaphore:
				return
			case driver.RWMutex:
				r.Units, r.Capacity = 1, driver.RWCapacity
				if units&1 == 0 {
					r.Units = r.Capacity
				}
			case driver.Barrier:
				r.Units, r.Capacity = 1, driver.RWCapacity
			default:
				r.Units, r.Capacity = 1, 1
			}
		}
		if driver.CheckRequest(&r) != nil || checkShape(&r) != nil {
			t.Fatalf("%+v has no name", r)
		}
		want.units, want.capacity, want.said = r.Units, r.Capacity, r.Capacity
		names := layout{kazoo: l&1 != 0, latch: l&2 != 0, leases: l&4 != 0}
		if want.kind == driver.Semaphore && names.leases { // the first of its line holds, whatever it wants
			want.units, want.capacity, want.said, want.wants, want.limit = 1, 1, 1, r.Units, r.Capacity
		}
		want.node = names.stem(want.id, want.kind, r.Units, r.Capacity, want.marks()...) + fmt.Sprintf("%010d", want.number)
		got, ok := parse(want.node)
		if want.layout = got.layout; !ok || got != want {
			t.Fatalf("%q is %+v, not %+v", want.node, got, want)
		}
		if names.kazoo != got.layout.kazoo && want.kind != driver.Semaphore && want.kind != driver.Barrier && !(names.latch && want.kind == driver.Election) {
			t.Errorf("%q is not kazoo's: %+v", want.node, got)
		}
		if again := stemOf(&got, got.id); want.wants == 0 && numbered(got, again) != want.node {
			t.Errorf("%q is renamed to %q", want.node, numbered(got, again))
		}
		for _, word := range []string{"lock-", "__READ__", "__WRIT__", "latch-", "__lock__", "__rlock__"} {
			if at := strings.LastIndex(want.node, word); at >= 0 && len(want.node)-at-len(word) != 10 {
				t.Errorf("%q: behind %s is no number", want.node, word)
			}
		}
	})
}

// Promise: whatever the nodes around a queue say, nobody is harmed by reading it, and what is taken for a number
// of permits, a permit, a mark or a demand is one.
func FuzzNodes(f *testing.F) {
	uuid := "_c_01234567-89ab-cdef-0123-456789abcdef"
	for _, text := range []string{
		"", "R", "R7", "P-1", "R2147483648", "R7x", "_c_set2_held0_unsure0-latch-0000000002", "_c_unset9223372036854775807-latch-0000000002", "_c_set-1-latch-0000000000",
		"_c_set2_held_unsure-latch--000000001", "_c_set2_held3-latch-0000000002", "_c_permits", uuid + "-of3-lease-0000000001", uuid + "-of-9-lease--2147483648", "lease-0000000001", "0000000000",
		"revoke 1 q\nevict  \nforce x y z", "evict", "revoke a b\n\nx y z\n", "force \xff \x00",
	} {
		f.Add(text, uuid+"-permits3of8-lock-0000000001")
		f.Add(text, "_c_set3_held1_unsure9-latch-0000000010")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if s := parseSetting(a); s.capacity != 0 && (s.capacity < 1 || s.capacity > driver.MaxCapacity || !strings.HasPrefix(a, s.stem())) {
			t.Errorf("%q is the number %+v", a, s)
		}
		all, set := parseQueue([]string{a, b, a})
		for i := range all {
			all.holds(i)
			all.intruder(i)
			all.view(i)
		}
		set.stem()
		if n := parseLease(a); n.units != 1 || n.id != "" && driver.CheckID(n.id) != nil {
			t.Errorf("%q is the permit %+v", a, n)
		}
		if number, ok := marked([]byte(a)); ok && len(a) < 2 {
			t.Errorf("%q is the mark of %d", a, number)
		}
		for _, l := range lettersIn([]byte(a)) {
			if l.Demand != driver.Revoke && l.Demand != driver.Evict && l.Demand != driver.Force || strings.Contains(l.ID, " ") {
				t.Errorf("%q is the demand %+v", a, l)
			}
		}
	})
}
