package interlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestDowngradeIsRefused(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m"))
		wantErr(t, lease.Downgrade(ctx), interlock.ErrInvalid)
		ok(t, lease.Release())
		rw := a.RWMutex("rw", interlock.Reentrant())
		outer := acquire(t, rw.Writer())
		held := bind(t, outer)
		inner := errtest.Must(rw.Reader().Acquire(held))(t)
		wantErr(t, outer.Downgrade(ctx), interlock.ErrInvalid)
		ok(t, inner.Release())
		ok(t, outer.Downgrade(ctx))
		ok(t, outer.Release())
		wantErr(t, outer.Downgrade(ctx), interlock.ErrReleased)
		reader := acquire(t, rw.Reader())
		ok(t, reader.Downgrade(ctx))
		ok(t, reader.Release())
	}))
}

// Once a writer has become a reader, it keeps no readers of its client apart: they share a
// ticket.
func TestADowngradedLeaseKeepsNoReadersApart(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		rw := a.RWMutex("rw")
		lease := acquire(t, rw.Writer())
		ok(t, lease.Downgrade(ctx))
		first := acquire(t, rw.Reader())
		before := a.Admin().Exchanges()
		for range 10 {
			ok(t, acquire(t, rw.Reader()).Release())
		}
		costs(t, a, before, 0)
		ok(t, first.Release())
		ok(t, lease.Release())
	}))
}

// A downgrade without an answer can be repeated, though its holder has acquired the reader's
// side again in between.
func TestADowngradeIsRepeatedBesideANestedReader(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		rw := a.RWMutex("rw", interlock.Reentrant())
		lease := acquire(t, rw.Writer())
		held := bind(t, lease)
		a.faults().Before("Shrink", 0).Fail()
		wantErr(t, lease.Downgrade(lasting(t, time.Second)), context.DeadlineExceeded)
		a.faults().Clear()
		nested := errtest.Must(rw.Reader().Acquire(held))(t)
		ok(t, lease.Downgrade(ctx))
		beside := errtest.Must(b.RWMutex("rw").Reader().TryAcquire(ctx))(t)
		for _, l := range []*interlock.Lease{beside, nested, lease} {
			ok(t, l.Release())
		}
	}))
}

// Readers of one client who wait together get in together, though a writer came after them.
// No reader who came after the grant, or after a writer of the same client, gets in before
// that writer.
func TestReadersOfOneClientAreNotSplitByALaterWriter(t *testing.T) {
	for name, c := range map[string]struct{ ownWriter, givesUp bool }{
		"writer elsewhere":                 {},
		"writer here":                      {ownWriter: true},
		"writer elsewhere, first gives up": {givesUp: true},
		"writer here, first gives up":      {ownWriter: true, givesUp: true},
	} {
		simulatedAs(t, name, func(t *testing.T) {
			a, b, other := trio(t)
			writers := b
			if c.ownWriter {
				writers = a
			}
			reads := a.RWMutex("rw").Reader()
			holder := acquire(t, other.RWMutex("rw").Writer())

			firsts, giveUp := context.WithCancel(ctx)
			defer giveUp()
			granted := a.faults().After("Await", 1).Stick()
			readers := []<-chan result{async(firsts, reads)}
			for range 3 {
				time.Sleep(20 * time.Millisecond)
				readers = append(readers, async(ctx, reads))
			}
			time.Sleep(200 * time.Millisecond)
			writer := async(ctx, writers.RWMutex("rw").Writer())
			time.Sleep(20 * time.Millisecond)
			var later []<-chan result
			if c.ownWriter {
				later = append(later, async(ctx, reads))
				time.Sleep(20 * time.Millisecond)
			}
			ok(t, holder.Release())
			<-granted.Reached()
			if c.givesUp { // just as the grant comes
				giveUp()
			}
			granted.Deliver()
			synctest.Wait()
			later = append(later, async(ctx, reads))

			var leases []*interlock.Lease
			for i, r := range readers {
				switch r, done := got(r); {
				case c.givesUp && i == 0:
					wantErr(t, r.err, context.Canceled)
				case !done:
					t.Fatalf("reader %d waits behind a writer who came after it", i)
				default:
					ok(t, r.err)
					leases = append(leases, r.lease)
				}
			}
			for _, r := range later {
				notYet(t, r, "a reader who came later is let in")
			}
			for _, l := range leases {
				notYet(t, writer, "the writer holds beside readers")
				ok(t, l.Release())
			}
			now(t, writer, "the writer waits for readers who came later").release(t)
			for _, l := range later {
				turn(t, l)
			}
			nothingLeft(t, a, b)
		})
	}
}

// Of the readers who stand in the line when their ticket is granted, a ticket takes no more
// than it takes of others once somebody waits.
func TestAWriterIsNotOvertakenByALongLineOfReaders(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		holder := acquire(t, b.RWMutex("rw", interlock.StrictOrder()).Writer())
		granted := a.faults().After("Await", 1).Stick()
		var readers []<-chan result
		for range interlock.MaxHandovers + 10 {
			readers = append(readers, async(ctx, a.RWMutex("rw").Reader()))
		}
		writer := async(ctx, b.RWMutex("rw", interlock.StrictOrder()).Writer())
		ok(t, holder.Release())
		<-granted.Reached()
		synctest.Wait() // it knows by now that a writer waits
		granted.Deliver()
		in := 0
		for i, r := range readers {
			if r, done := got(r); done {
				r.release(t)
				in++
				failIf(t, in != i+1, "reader %d is the %dth to get in", i, in)
			}
		}
		failIf(t, in != interlock.MaxHandovers, "%d readers got in", in)
		turn(t, writer)
		for _, r := range readers[in:] {
			turn(t, r)
		}
	}))
}
