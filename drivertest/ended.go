package drivertest

import (
	"errors"

	"github.com/interlock-go/interlock/driver"
)

// A renewal that comes too late revives nothing: others may have acted upon the end, or
// have seen that there is nobody.
var whatHasEndedIsNotRenewed = rule{
	name: "WhatHasEndedIsNotRenewed",
	says: []string{
		"A ticket that has not been renewed for the session's TTL leaves by itself, held or waiting.",
		"Once a session is over every method returns ErrSession.",
	},
	exclusive: true,
	check: func(t *trial) {
		a, b := t.mortal(), t.client()
		held := a.lease(a.hold(t.exclusive("q")))
		t.eventually("the end of a ticket that is not renewed", func() bool { return len(t.snapshot(b.driver, "q").Members) == 0 })
		var answer []driver.Renewed
		err := t.known(func() (err error) { answer, err = a.Renew(t.ctx, []driver.Ticket{held.ticket}); return err })
		if err != nil && !errors.Is(err, driver.ErrSession) {
			t.Fatalf("Renew of a ticket that has ended: %v", err)
		}
		for _, r := range answer {
			if r.State != driver.Gone {
				t.Fatalf("Renew of a ticket that has ended: %+v; it must be Gone", r)
			}
		}
		t.stands(b.driver, "q", nil, nil)
	},
}
