package zklock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: who takes a lock for something else than those who came first is refused, and nobody
// else because of that: not while the node of the one to be refused stands already, nor if
// its client does not hear of the node.
func TestWhoIsToBeRefusedRefusesNobody(t *testing.T) {
	t.Parallel()
	s := lent(t)
	for layout, options := range map[string]string{"ours": "", "Curator's": curators} {
		for what, late := range map[string]driver.Request{
			"another capacity": {Kind: driver.Semaphore, Units: 1, Capacity: 6},
			"another kind":     {Kind: driver.Mutex, Units: 1, Capacity: 1},
		} {
			if late.Kind == driver.Mutex && options != "" {
				continue // it stands in another folder
			}
			for _, lost := range []bool{false, true} {
				name := layout + "/" + what
				if lost {
					name += ", an answer lost"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					rightsOfTheFirst(t, s.Addr, options, late, lost)
				})
			}
		}
	}
}

func rightsOfTheFirst(t *testing.T, addr, options string, late driver.Request, lost bool) {
	q := someID()
	permits := func(units int64) driver.Request {
		return driver.Request{ID: someID(), Queue: q, Kind: driver.Semaphore, Units: units, Capacity: 5}
	}
	via := zktest.NewProxy(t, addr)
	at := func(addr string) *driver.Opened {
		d := errtest.Must(openURL(t.Context(), "zk://"+addr+"/a"+options))(t)
		t.Cleanup(func() { _ = d.Close() })
		return session(t, d, 20*time.Second)
	}
	first, right, wrong := at(addr), at(addr), at(via.Addr)
	folder := "/a/" + q
	if options != "" {
		folder += "/locks"
	}
	held := holds(t, first, permits(1))
	beat(t, first, held)
	raw := connected(t, addr)
	before := len(nodes(t, raw, folder))

	late.ID, late.Queue = someID(), q
	var hold *zktest.Hold
	if lost {
		via.LoseReplies(1, zktest.With(zktest.OpCreate))
	} else {
		hold = via.HoldReplies(zktest.With(zktest.OpCreate))
	}
	refused := make(chan error, 1)
	go func() {
		_, err := wrong.Join(limited(t), late)
		refused <- err
	}()
	busy.Until(t, "its node stands", func() bool { return len(nodes(t, raw, folder)) == before+1 })
	noError(t, right.Leave(limited(t), holds(t, right, permits(1)), true))
	if n := len(nodes(t, raw, folder)); n != before {
		t.Errorf("%d tickets stand, %d of them by right", n, before)
	}
	waits := join(t, right, permits(5))
	if waits.Held {
		t.Error("5 of 5 permits are held beside another one")
	}
	if !lost {
		hold.Release()
	}
	err := <-refused
	for late.Retry = true; !driver.IsPermanent(err); {
		_, err = wrong.Join(limited(t), late)
	}
	if !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("who came late: %v", err)
	}
	beat(t, right, waits)
	noError(t, first.Leave(limited(t), held, true))
	if got, err := right.Await(limited(t), waits); err != nil || !got.Held {
		t.Errorf("once the first has left: %+v %v", got, err)
	}
}
