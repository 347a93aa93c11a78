package adaptertest

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/clientgolock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// electing is the configuration of a candidate, which leads no longer when it could not renew until the deadline.
func electing(c *interlock.Client, deadline time.Duration, lead func(context.Context)) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock:          clientgolock.New(c, "controller"),
		LeaseDuration: deadline * 3 / 2, RenewDeadline: deadline, RetryPeriod: 100 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
	}
}

// elected is a candidate that stands until stop is called, or it has lost the leadership.
type elected struct {
	id    string
	leads chan struct{} // when it begins to lead
	saw   chan string   // the leaders that it has seen
	ended chan struct{} // when it stands no more
	stop  context.CancelFunc
}

func elect(t *testing.T, c *interlock.Client, deadline time.Duration) elected {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	e := elected{leads: make(chan struct{}), saw: make(chan string, 10), ended: make(chan struct{}), stop: stop}
	config := electing(c, deadline, func(context.Context) { close(e.leads) })
	config.Callbacks.OnNewLeader = func(id string) { e.saw <- id }
	e.id = config.Lock.Identity()
	le := errtest.Must(leaderelection.NewLeaderElector(config))(t)
	go func() { le.Run(ctx); close(e.ended) }()
	t.Cleanup(func() { stop(); errtest.Received(t, "the end of the candidate", e.ended) })
	return e
}

// sees waits until the candidate sees another lead.
func (e elected) sees(t *testing.T, another string) {
	t.Helper()
	if id := errtest.Received(t, "the leader", e.saw); id != another {
		t.Fatalf("it sees %s lead, not %s", id, another)
	}
}

// Promise: client-go elects one leader without a cluster, and the next one when that stops.
func TestClientGoElectsALeader(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		first := elect(t, open(t, url).Client, time.Minute)
		errtest.Received(t, "the first leader", first.leads)
		second := elect(t, open(t, url).Client, time.Minute)
		second.sees(t, first.id)
		select {
		case <-second.leads:
			t.Error("two lead")
		default:
		}
		first.stop()
		errtest.Received(t, "the second leader", second.leads)
	})
}

func init() {
	holders["client-go"] = func(url string) error {
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		leaderelection.RunOrDie(context.Background(), electing(c, 2*time.Second, func(context.Context) { holds() }))
		return nil
	}
}

// Promise: a candidate that waits leads when the leader has been killed, and not before.
func TestClientGoGoesOnWhenTheLeaderIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		kill := startHolder(t, "client-go", url)
		c := open(t, url)
		e := elect(t, c.Client, 2*time.Second)
		record, _, err := clientgolock.New(c.Client, "controller").Get(t.Context())
		errtest.None(t, err)
		e.sees(t, record.HolderIdentity)
		kill()
		errtest.Received(t, "the candidate", e.leads)
	})
}

// Promise: a leader whose record another has replaced leads no longer.
func TestClientGoLeaderSeesThatAnotherLeads(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		e := elect(t, c.Client, 2*time.Second)
		errtest.Received(t, "the leader", e.leads)
		another := resourcelock.LeaderElectionRecord{HolderIdentity: "another", LeaseDurationSeconds: 3600}
		errtest.Must(interlock.NewValue[resourcelock.LeaderElectionRecord](c.Client, "controller").Update(t.Context(),
			func(resourcelock.LeaderElectionRecord) (resourcelock.LeaderElectionRecord, error) {
				return another, nil
			}))(t)
		errtest.Received(t, "the end of the candidate", e.ended)
	})
}

// Promise: a record is made once, and replaced by the candidate that has seen the last one. The errors are those that
// client-go asks for.
func TestClientGoReplacesTheRecordThatItHasSeen(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		ctx, c := t.Context(), open(t, url)
		first := clientgolock.New(c.Client, "controller")
		second := clientgolock.New(open(t, url).Client, "controller")
		if first.Identity() == second.Identity() {
			t.Errorf("two candidates are %s", first.Identity())
		}
		is := func(what string, is func(error) bool, err error) {
			t.Helper()
			if !is(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		record := resourcelock.LeaderElectionRecord{HolderIdentity: first.Identity()}
		_, _, err := first.Get(ctx)
		is("Get of no record", kerrors.IsNotFound, err)
		if first.Update(ctx, record) == nil {
			t.Error("Update has made a record")
		}
		errtest.None(t, first.Create(ctx, record))
		is("the second Create", kerrors.IsAlreadyExists, second.Create(ctx, record))
		errtest.None(t, first.Update(ctx, record)) // as the leader does, without Get
		got, _, err := second.Get(ctx)
		errtest.None(t, err)
		if got.HolderIdentity != first.Identity() {
			t.Errorf("the holder is %s", got.HolderIdentity)
		}
		errtest.None(t, first.Update(ctx, record))
		is("Update of a record that was replaced", kerrors.IsConflict, second.Update(ctx, record))
		is("Update of it again", kerrors.IsConflict, second.Update(ctx, record))
		_, _, err = second.Get(ctx)
		errtest.None(t, err)
		errtest.None(t, second.Update(ctx, record))
		is("Update of the former leader", kerrors.IsConflict, first.Update(ctx, record))

		v := interlock.NewValue[resourcelock.LeaderElectionRecord](c.Client, "controller")
		s := errtest.Must(v.Get(ctx))(t)
		errtest.None(t, v.Delete(ctx, s.Version))
		is("Update of a record that was deleted", kerrors.IsConflict, second.Update(ctx, record))
		_, _, err = second.Get(ctx)
		is("Get of a record that was deleted", kerrors.IsNotFound, err)
		errtest.None(t, second.Create(ctx, record))
	})
}

// Promise: a candidate sees each renewal, though the times of the record are of whole seconds, and no renewal where
// there is none.
func TestClientGoSeesRenewalsWithinASecond(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		ctx := t.Context()
		leader := clientgolock.New(open(t, url).Client, "controller")
		other := clientgolock.New(open(t, url).Client, "controller")
		raw := func() string {
			t.Helper()
			_, b, err := other.Get(ctx)
			errtest.None(t, err)
			return string(b)
		}
		record := resourcelock.LeaderElectionRecord{HolderIdentity: leader.Identity()}
		errtest.None(t, leader.Create(ctx, record))
		before := raw()
		if again := raw(); again != before {
			t.Errorf("without a renewal %s differs from %s", again, before)
		}
		errtest.None(t, leader.Update(ctx, record))
		if after := raw(); after == before {
			t.Errorf("a renewal is not seen: %s", after)
		}
	})
}

// Promise: a call ends with its context when the backend is away, so that a leader stops in time.
func TestClientGoCallsEndWithTheContext(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), "mem:"))(t)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := clientgolock.New(c, "controller").Get(ctx)
	errtest.Is(t, err, context.Canceled, "Get")
	_, _, err = clientgolock.New(c, "").Get(t.Context())
	errtest.Is(t, err, interlock.ErrInvalid, "Get of no name")
}

func Example_clientGo() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := interlock.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            clientgolock.New(client, "controller"),
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leads"); stop() },
			OnStoppedLeading: func() {},
		},
	})
	// Output: leads
}
