package sqlitelock

import (
	"testing"

	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: whatever is sent to the mailbox of a client, it is read without harm, and an event has a name of no more
// bytes than were sent.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(again)
	f.Add(messageOf([]exchange.Event{{Type: exchange.Granted, ID: "1", Queue: "q", Status: exchange.Status{Token: 5}}, {Type: exchange.Demanded, Demand: 1, ID: "2"}}))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &store{}
		size := 0
		receive := func(ev exchange.Event) { size += len(ev.ID) + len(ev.Queue) + len(ev.Cell) }
		s.receiver.Store(&receive)
		if s.open(data); size > len(data) {
			t.Errorf("%d bytes of names in %d", size, len(data))
		}
	})
}
