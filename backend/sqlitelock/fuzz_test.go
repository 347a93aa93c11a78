package sqlitelock

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
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
	made, err := New(f.Context(), filepath.Join(f.TempDir(), "locks.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = made.Close() })
	s, err := made.Open(f.Context(), driver.SessionOptions{TTL: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	for _, digit := range []string{"1", "2"} {
		if _, err := s.Join(f.Context(), driver.Request{ID: strings.Repeat(digit, 32), Queue: "other", Kind: driver.Mutex, Units: 1, Capacity: 1}); err != nil {
			f.Fatal(err)
		}
	}
	d := made.(*Driver)
	look := func() (all []state) {
		d.tickets.mu.Lock()
		defer d.tickets.mu.Unlock()
		for _, t := range d.tickets.places["other"] {
			all = append(all, t.state)
		}
		return all
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m message
		if json.Unmarshal(data, &m) == nil && (m.Look || m.Over != 0 || m.Queue == "other") {
			return // it looks at the database, or is meant
		}
		d.open(data)
		held, waits := 0, 0
		for _, s := range look() {
			switch s {
			case waiting:
				waits++
			default:
				held++
			}
		}
		if held != 1 || waits != 1 {
			t.Errorf("%q: %d hold and %d wait", data, held, waits)
		}
	})
}
