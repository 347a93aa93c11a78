package sqlitelock

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: whatever is sent to a driver's socket, it is read without harm, and what says nothing of a
// queue changes none of its tickets.
func FuzzMessage(f *testing.F) {
	for _, data := range []string{
		"", "null", "{}", "[]", `{"q":"q","g":[1,2,3],"s":5}`, `{"q":"q","g":[2],"s":9223372036854775807,"i":true,"w":true}`, `{"q":"q","want":[1],"revoke":[2],"evict":[1]}`,
		`{"q":"q","gone":[1,2]}`, `{"over":1}`, `{"over":-1}`, `{"q":"q","c":true}`, `{"v":"a"}`, `{"e":-9223372036854775808}`, `{"e":1}`, `{"q":5}`, `{"q":"\u0000","g":null}`, "\xff{",
	} {
		f.Add([]byte(data))
	}
	made := start(f, filepath.Join(f.TempDir(), "locks.db"))
	s := begin(f, made)
	for _, digit := range []string{"1", "2"} {
		errtest.Must(s.Join(f.Context(), driver.Request{ID: strings.Repeat(digit, 32), Queue: "other", Kind: driver.Mutex, Units: 1, Capacity: 1}))(f)
	}
	for _, k := range made.store.tickets.some(2) { // tickets of another queue have these numbers
		f.Add(fmt.Appendf(nil, `{"q":"q","g":[%[1]d],"want":[%[1]d],"revoke":[%[1]d],"evict":[%[1]d],"gone":[%[1]d]}`, k.n))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m message
		if json.Unmarshal(data, &m) == nil && (m.Look || m.Over != 0 || m.Queue == "other") {
			return // it looks at the database, or is meant
		}
		for _, ev := range made.store.tickets.events(&m) {
			if ev.ID != "" {
				t.Errorf("%q: an event of a ticket: %+v", data, ev)
			}
		}
		made.store.open(data)
		if some, _ := made.store.tickets.wait(""); !some || len(made.store.tickets.byID) != 2 {
			t.Errorf("%q: %d tickets are left, one of them waits: %v", data, len(made.store.tickets.byID), some)
		}
	})
}
