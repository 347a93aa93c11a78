package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Whoever may write the records of one name writes garbage into each of them, while it has a holder and a waiter.
var _ = rules.Add(rule{Name: "Member", Hook: "Damages", Says: []string{
	"What stands in the records of one queue, whoever has written it there, harms no other queue.",
	"What cannot be read is left out, and an error, which comes last, says so.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	var well []driver.Ticket
	for _, name := range []string{"a-well", "z-well"} {
		well = append(well, a.hold(t.exclusive(name)))
		t.swap(c.driver, set(name, 0, "v"))
	}
	defer t.bounded(1 << 30)()
	brief := func(what string, call func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Ctx, time.Second/2)
		defer cancel()
		began := time.Now()
		_ = call(ctx)
		if took := time.Since(began); took > t.Patience/2 {
			t.Errorf("%s takes %v, with a context of half a second", what, took)
		}
	}
	for i := range t.world.Damages("") {
		name := fmt.Sprintf("harmed-%d", i)
		held, waiting := a.hold(t.exclusive(name)), b.wait(t.exclusive(name))
		t.swap(c.driver, set(name, 0, "v"))
		damage := t.world.Damages(name)[i]
		if err := damage.Do(); err != nil {
			t.Logf("%s: the backend refuses it: %v", damage.What, err)
			continue
		}
		t.Allow(0)
		for _, tk := range []driver.Ticket{held, waiting} {
			for what, call := range everyCall(c.driver, c, tk, nowait(t.exclusive(name)), set(name, 1, "w")) {
				if what != "Open" && what != "Watch" && what != "Await" && what != "Raise" {
					brief(damage.What+": "+what, call)
				}
			}
		}
		soon, cancel := context.WithTimeout(t.Ctx, 20*time.Millisecond)
		_, _ = b.Await(soon, waiting)
		cancel()
		for who, known := range map[*client][]driver.Ticket{a: {held, well[0], well[1]}, b: {waiting}} {
			answer, err := who.Renew(t.Ctx, known)
			kept := 0
			for _, r := range answer {
				if r.State == driver.Kept {
					kept++
				}
			}
			t.FatalIf(who == a && (err != nil || kept < len(well)), "%s: Renew keeps %+v, %v", damage.What, answer, err)
		}
		tk := b.hold(t.exclusive("another"))
		b.leave(tk)
		seen := 0
		listed := false
		var failed error // which says, in the end, what could not be read
		for q, err := range c.driver.Queues(t.Ctx, "") {
			listed = listed || q.Name == name
			if failed = errors.Join(failed, err); len(q.Members) == 1 && (q.Members[0].ID == well[0].ID || q.Members[0].ID == well[1].ID) {
				seen++
			}
		}
		if _, err := c.driver.Follow(t.Ctx, name, ""); driver.IsPermanent(err) && !listed && failed == nil {
			t.Errorf("%s: a list says nothing of the queue, which cannot be read: %v", damage.What, err)
		}
		for name, err := range c.driver.Cells(t.Ctx, "") {
			if failed = errors.Join(failed, err); name == "a-well" || name == "z-well" {
				seen++
			}
		}
		t.FatalIf(seen != 2*len(well),
			"%s: of %d other names %d are listed: %v", damage.What, 2*len(well), seen, failed)
		brief(damage.What+": Leave", func(ctx context.Context) error {
			return errors.Join(a.Leave(ctx, held, true), b.Leave(ctx, waiting, true))
		})
	}
})
