package zklock

import (
	"testing"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
)

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
		if _, ok := decode(succeed(c, 0, 0, meta{})); !ok {
			t.Errorf("%q becomes %q", data, succeed(c, 0, 0, meta{}))
		}
		if n.left(1) > 0 && driver.Now().Add(n.left(1)) < driver.Now() {
			t.Errorf("%q ends before it begins", node)
		}
	})
}
