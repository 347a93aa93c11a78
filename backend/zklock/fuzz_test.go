package zklock

import (
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/backend/zklock/internal/curator"
	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
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
		"_c_" + curator.UUID(id) + "-lock-0000000001", "_c_" + curator.UUID(id) + "-mutex-lock-0000000001", "_c_" + id + "-lock-0000000001",
		id + "-lock-0000000001", curator.UUID(id) + "__lock__0000000001", "_c_" + curator.UUID(id) + "-write-__lock__0000000001",
		"_c_" + curator.UUID(id) + "-permits3of8-lock-0000000001", "_c_" + curator.UUID(id) + "-permits-3of8-lock-0000000001",
		"_c_" + curator.UUID(id) + "-permits99999999999999999999of8-lock-0000000001", "_c_" + curator.UUID(id) + "-permitsof-lock-0000000001",
		"_c_" + curator.UUID(id) + "-permits9223372036854775807of1-lock-0000000001", "_c_" + curator.UUID(id) + "-permits+0of0-lock-0000000001",
		"_c_" + curator.UUID(id) + "-until-kept-evicted-lock-0000000001", "_c_" + curator.UUID(id) + "-until99999999999999999999-lock-0000000001",
		"_c_" + curator.UUID(id) + "-member-__WRIT__0000000001", "_c_ZZ" + curator.UUID(id)[2:] + "-lock-0000000001", "\xff\xfelock-0000000001",
	} {
		f.Add(node, "_c_"+curator.UUID(id)+"-permits3of8-lock-0000000002")
	}
	f.Add("_c_"+curator.UUID(id)+"-permits3of8-lock-0000000001", "_c_set2_held0_unsure0-number-0000000002")
	f.Fuzz(func(t *testing.T, a, b string) {
		n, ok := parse(a)
		if !ok {
			return
		}
		if n.node != a || n.ID != "" && driver.CheckID(n.ID) != nil || n.Units < 1 || n.Units > n.Capacity || n.Order < 1 {
			t.Fatalf("%q is %+v", a, n)
		}
		all := parseLine([]string{b, a, b, a})
		for _, n := range all.Keys {
			p := all.Place(n)
			if watched, _ := p.Obstacles(); !p.Held && !all.Agree(n).Refused && len(p.Before) > 0 && len(watched) == 0 {
				t.Fatalf("%q waits for nobody in %+v", n.node, all.Keys)
			}
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
		want := &ticket{until: end & math.MaxInt64, Key: keys.Key{ID: hex.EncodeToString(raw[:]), Kind: kinds[int(kind)%len(kinds)], Order: order(number & math.MaxInt32)}}
		want.kept, want.evicted, want.Stays = kept && want.until != 0, evicted && want.until != 0, want.until != 0
		r := driver.Request{ID: want.ID, Kind: want.Kind, Units: units, Capacity: capacity}
		if driver.CheckRequest(&r) != nil || (&config{}).checkShape(&exchange.Join{Request: r}) != nil {
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
		if driver.CheckRequest(&r) != nil || (&config{}).checkShape(&exchange.Join{Request: r}) != nil {
			t.Fatalf("%+v has no name", r)
		}
		c := &config{names: layout{kazoo: l&1 != 0, latch: l&2 != 0}}
		named := c.ticketOf(&exchange.Join{Request: r})
		want.Units, want.Capacity, want.layout = r.Units, r.Capacity, named.layout
		want.node = want.stem() + fmt.Sprintf("%010d", number&math.MaxInt32)
		got, ok := parse(want.node)
		if !ok {
			t.Fatalf("%q is no ticket", want.node)
		}
		if want.layout = got.layout; !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is %+v, not %+v", want.node, got, want)
		}
		if c.names.kazoo != got.layout.kazoo && want.Kind != driver.Semaphore && want.Kind != driver.Barrier && !(c.names.latch && want.Kind == driver.Election) {
			t.Errorf("%q is not kazoo's: %+v", want.node, got)
		}
		if again := got.numbered(got.node); again != want.node {
			t.Errorf("%q is renamed to %q", want.node, again)
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
		"", "R", "R7", "P-1", "R2147483648", "R7x", "_c_set2_held0_unsure0-number-0000000002", "_c_unset9223372036854775807-number-0000000002", "_c_set-1-number-0000000000",
		"_c_set2_held_unsure-number--000000001", "_c_set2_held3-number-0000000002", "_c_permits", uuid + "-of3-lease-0000000001", uuid + "-of-9-lease--2147483648", "lease-0000000001", "0000000000",
		"revoke 1 q\nevict  \nforce x y z", "evict", "revoke a b\n\nx y z\n", "force \xff \x00",
	} {
		f.Add(text, uuid+"-permits3of8-lock-0000000001")
		f.Add(text, "_c_set3_held1_unsure9-number-0000000010")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if n := parseNumber(a); n.readable() && n.node != bell && n.node != "" && !strings.HasPrefix(a, n.stem(n.Waited == 0 && strings.Contains(a, "unsure"))) {
			t.Errorf("%q is the number %+v", a, n)
		}
		nodes := []string{a, b, a}
		f := &listing{line: *parseLine(nodes), number: permitsIn(nodes), Children: zk.Children{Names: nodes}}
		f.Number = f.number.Number
		for _, n := range f.Keys {
			p := f.Place(n)
			p.Obstacles()
			f.Agree(n)
		}
		f.over()
		if of, ok := marked([]byte(a)); ok && len(a) < 2 {
			t.Errorf("%q is the mark of %d", a, of)
		}
		for _, l := range lettersIn([]byte(a)) {
			if l.Demand != driver.Revoke && l.Demand != driver.Evict && l.Demand != driver.Force || strings.Contains(l.ID, " ") {
				t.Errorf("%q is the demand %+v", a, l)
			}
		}
	})
}

// Promise: whatever a record of raised tokens says, reading it harms no process, and a record says what is added.
func FuzzRecords(f *testing.F) {
	for _, data := range []string{
		"", "null", "{}", "[]", "{", `{"floor":null}`, `{"floor":[{}]}`, `{"floor":[{"after":1,"add":2}]}`, `{"floor":[{"after":-1,"add":2}],"lost":7}`,
		`{"floor":[{"after":0,"add":18446744073709551615}]}`, `{"floor":[{"after":9,"add":2251799813685247}]}`, "\x00", "{\"\xff\":[]}",
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err == nil && len(r.Floor) == 0 {
			t.Errorf("%q says nothing", data)
		}
		for _, s := range r.Floor {
			if err == nil && (s.Add == 0 || s.Add >= driver.MaxToken) {
				t.Errorf("%q adds %d", data, s.Add)
			}
		}
	})
}

// Promise: whatever the data of a ticket's node are, its token is that of a transaction that was
// not later, and what it says can be kept.
func FuzzTickets(f *testing.F) {
	for _, data := range []string{
		"", "{", "{}", "__REVOKE__", "10.0.0.1", `{"owner":"a:1","ttl":1000000000}`, `{"owner":"a:1","note":"bm90ZQ==","ttl":1,"hold":true}`,
		`{"token":"18446744073709551615","joined":1,"zxid":"18446744073709551615"}`, `{"lent":"18446744073709551615"}`, `{"lent":"7"}`,
		`{"token":"2251799813685248"}`, `{"ttl":-9223372036854775808}`, `{"leaving":true}`, `{"joined":-1,"zxid":"0"}`, `{"zxid":7}`, "{\"owner\":\"\x1b]0;\xff\"}",
	} {
		f.Add([]byte(data), int64(100), "_c_01234567-89ab-cdef-0123-456789abcdef-mutex-lock-0000000001")
	}
	f.Add([]byte("{}"), int64(1), "_c_01234567-89ab-cdef-0123-456789abcdef-until9223372036854775807-mutex-lock-0000000001")
	f.Fuzz(func(t *testing.T, data []byte, zxid int64, node string) {
		zxid &= 1<<62 - 1
		n, ok := parse(node)
		if !ok {
			n = &ticket{}
		}
		c := zk.Content{Data: data, Stat: &zk.Stat{Czxid: zxid}}
		if joined(c) > uint64(zxid) {
			t.Errorf("%q joined at %d, and its node is of %d", data, joined(c), zxid)
		}
		if m := memberOf(n, c); m.Token > max(uint64(zxid), driver.MaxToken-1) {
			t.Errorf("%q has the token %d", data, m.Token)
		}
		m, _ := decode(data)
		if _, ok := decode(m.encode()); !ok {
			t.Errorf("%q becomes %q", data, m.encode())
		}
		if n.left(1) > 0 && driver.Now().Add(n.left(1)) < driver.Now() {
			t.Errorf("%q ends before it begins", node)
		}
	})
}
