package zklock

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
)

// Promise: tokens grow as transactions do, and do not run over, whatever is said to be added to
// them.
func TestTokensGrowWhateverIsAdded(t *testing.T) {
	number := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 100), rapid.Uint64Range(driver.MaxToken-100, driver.MaxToken+100))
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.Custom(func(t *rapid.T) addition {
			return addition{After: number.Draw(t, "after"), Add: number.Draw(t, "add")}
		})).Draw(t, "all")
		zxid := rapid.OneOf(rapid.Uint64Range(1, 100), rapid.Uint64Range(1, driver.MaxToken-2))
		a, b := zxid.Draw(t, "a"), zxid.Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		x, y := a+added(all, a), b+added(all, b)
		if a < b && x >= y || x < a || y > 2*driver.MaxToken {
			t.Fatalf("%d becomes %d, and %d becomes %d", a, x, b, y)
		}
	})
}

// Promise: after raises in any order, later tickets have tokens above each floor, and those that
// stand keep theirs.
func TestRaisedTokensStayAboveTheirFloors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []addition
		zxid, floor := uint64(1), uint64(0)
		told := map[uint64]uint64{} // of tickets that are held, by their transactions
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			zxid += rapid.Uint64Range(1, 5).Draw(t, "transactions")
			token := zxid + added(all, zxid)
			if token <= floor {
				t.Fatalf("the transaction %d has the token %d after a raise to %d: %v", zxid, token, floor, all)
			}
			told[zxid] = token
			if rapid.Bool().Draw(t, "raise") {
				floor = token + rapid.Uint64Range(0, 1000).Draw(t, "more")
				oldest := rapid.Uint64Range(1, zxid).Draw(t, "oldest")
				for at := range told {
					if at < oldest {
						delete(told, at)
					}
				}
				next := zxid + 1
				all = raised(all, addition{After: zxid, Add: floor + 1 - next}, oldest)
			}
			for at, token := range told {
				if now := at + added(all, at); now != token {
					t.Fatalf("the transaction %d had the token %d, and now %d: %v", at, token, now, all)
				}
			}
		}
	})
}

// Promise: whatever the nodes of floors say, nobody is harmed by reading it, and what is taken
// for additions are some.
func FuzzAdditions(f *testing.F) {
	for _, data := range []string{
		"", "null", "{}", "[]", "{", `{"q":null}`, `{"q":[]}`, `{"q":5}`, `{"q":[{}]}`, `{"q":[{"after":"1","add":"2"}]}`, `{"":[{"after":"1","add":"2"}]}`,
		`{"q":[{"after":"-1","add":"2"}]}`, `{"q":[{"after":"0","add":"18446744073709551615"}]}`, `{"q":[{"after":"9","add":"2251799813685248"}],"r":[{"after":"9","add":"2251799813685247"}]}`,
		`[{"after":"1","add":"2"},{"after":"1","add":"1"}]`, `{"q":[{"after":1,"add":2}]}`, "\x00", "{\"\xff\":[]}",
	} {
		f.Add([]byte(data), int32(1))
	}
	f.Add([]byte(nil), int32(0))
	f.Fuzz(func(t *testing.T, data []byte, version int32) {
		by := decodeAdditions(zk.Content{Data: data, Stat: &zk.Stat{Version: version}})
		if by.lost && by.of != nil {
			t.Errorf("%q is lost, and says %v", data, by.of)
		}
		by.illegible()
		for queue, one := range by.of {
			if !json.Valid(one) {
				t.Errorf("%q cannot be written again", one)
			}
			sane(t, queue, one)
		}
		sane(t, "the record", data)
	})
}

func sane(t *testing.T, whose string, data []byte) {
	all, err := decodeRecord(data)
	if err == nil && len(all) == 0 {
		t.Errorf("%s: %q says nothing", whose, data)
	}
	for _, a := range all {
		if a.Add == 0 || a.Add >= driver.MaxToken {
			t.Errorf("%s: %q adds %d", whose, data, a.Add)
		}
	}
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
		if _, ok := decode(succeed(c, 0, 0, meta{})); !ok {
			t.Errorf("%q becomes %q", data, succeed(c, 0, 0, meta{}))
		}
		if n.left(1) > 0 && driver.Now().Add(n.left(1)) < driver.Now() {
			t.Errorf("%q ends before it begins", node)
		}
	})
}
