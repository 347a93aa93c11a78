package adaptertest

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/gocronlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

var _ gocron.Elector = (*gocronlock.Elector)(nil)

type work = func(context.Context) error

// scheduled is a job of the scheduler of one instance, which runs when the test says so.
type scheduled struct {
	gocron.Job
	skipped chan error // why a run had no lock
	ended   chan error // of runs
}

func schedule(t *testing.T, f work, job gocron.JobOption, opts ...gocron.SchedulerOption) scheduled {
	t.Helper()
	s := errtest.Must(gocron.NewScheduler(opts...))(t)
	t.Cleanup(func() { s.Shutdown() })
	j := scheduled{skipped: make(chan error, 100), ended: make(chan error, 100)}
	j.Job = errtest.Must(s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(f), job, gocron.WithEventListeners(
		gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { j.skipped <- err }),
		gocron.AfterJobRuns(func(uuid.UUID, string) { j.ended <- nil }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { j.ended <- err }),
	)))(t)
	s.Start()
	return j
}

func (j scheduled) run(t *testing.T) {
	t.Helper()
	errtest.None(t, j.RunNow())
}

func (j scheduled) isSkipped(t *testing.T, why error) {
	t.Helper()
	errtest.Is(t, errtest.Received(t, "a skipped run", j.skipped), why, "a skipped run")
}

func (j scheduled) ends(t *testing.T, want error) {
	t.Helper()
	errtest.Is(t, errtest.Received(t, "a run", j.ended), want, "a run")
}

// blocking is work that goes on until the test or its context ends it.
func blocking() (f work, began chan struct{}, end func()) {
	began, ended := make(chan struct{}, 100), make(chan struct{})
	return func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, began, func() { close(ended) }
}

// Promise: the instance that has the lock runs the job; another does not wait for it and skips the run, also when the
// job has ended, within the time of AtLeast.
func TestGocronRunsAJobOnOneInstanceThoughClocksDiffer(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		f, began, end := blocking()
		var ran atomic.Int64
		instance := func() scheduled {
			report := gocronlock.New(open(t, url).Client, "report", interlock.AtLeast(time.Hour))
			return schedule(t, report.Bind(func(ctx context.Context) error { ran.Add(1); return f(ctx) }), report.Option())
		}
		first, second := instance(), instance()
		first.run(t)
		errtest.Received(t, "the job", began)
		second.run(t)
		second.isSkipped(t, interlock.ErrBusy)
		end()
		first.ends(t, nil)
		second.run(t)
		second.isSkipped(t, interlock.ErrBusy)
		if n := ran.Load(); n != 1 {
			t.Errorf("the job ran %d times", n)
		}
	})
}

func init() {
	holders["gocron"] = func(url string) error {
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		s, err := gocron.NewScheduler()
		if err != nil {
			return err
		}
		_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(holds),
			gocronlock.New(c, "report").Option())
		if err == nil {
			s.Start()
			select {}
		}
		return err
	}
}

// Promise: runs are skipped while another process has the lock, and no longer when it has been killed.
func TestGocronGoesOnWhenTheHolderIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		kill := startHolder(t, "gocron", url)
		report := gocronlock.New(open(t, url).Client, "report")
		s := errtest.Must(gocron.NewScheduler())(t)
		defer s.Shutdown()
		ran, skipped := make(chan struct{}, 1000), make(chan struct{}, 1000)
		errtest.Must(s.NewJob(gocron.DurationJob(20*time.Millisecond),
			gocron.NewTask(func() { ran <- struct{}{} }), report.Option(),
			gocron.WithEventListeners(gocron.AfterLockError(func(uuid.UUID, string, error) {
				select {
				case skipped <- struct{}{}:
				default:
				}
			}))))(t)
		s.Start()
		errtest.Received(t, "a skipped run", skipped)
		kill()
		errtest.Received(t, "the job", ran)
	})
}

// Promise: the context of a job ends when its lock is lost, the run fails with ErrLost, and until it has ended this
// instance does not begin another run.
func TestGocronTellsTheJobThatTheLockIsLost(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		report := gocronlock.New(c.Client, "report")
		told, end := make(chan error, 1), make(chan struct{})
		j := schedule(t, report.Bind(func(ctx context.Context) error {
			if interlock.LeaseFrom(ctx).Token() == 0 {
				t.Error("the job has no token")
			}
			errtest.Is(t, c.loses(ctx, "report", true), nil, "the loss")
			told <- ended(ctx)
			<-end
			return nil
		}), report.Option())
		j.run(t)
		errtest.Is(t, errtest.Received(t, "the job", told), interlock.ErrLost, "the context of the job")
		j.run(t)
		j.isSkipped(t, interlock.ErrBusy)
		close(end)
		j.ends(t, interlock.ErrLost)
	})
}

// Promise: the lock is released although the context of the job, which Unlock gets, has ended.
func TestGocronUnlocksThoughTheJobWasRemoved(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		other := open(t, url)
		report := gocronlock.New(open(t, url).Client, "report")
		f, began, _ := blocking()
		s := errtest.Must(gocron.NewScheduler())(t)
		defer s.Shutdown()
		j := errtest.Must(s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(report.Bind(f)), report.Option()))(t)
		s.Start()
		errtest.Received(t, "the job", began)
		errtest.None(t, s.RemoveJob(j.ID()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lease, err := other.Mutex("report").Acquire(ctx) // the lease of the removed job is for a minute
		errtest.None(t, err)
		errtest.None(t, lease.Release())
	})
}

// Promise: jobs have the locks of the names that the program gives them, whatever their functions are called.
func TestGocronLocksHaveTheNamesThatTheyAreGiven(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		f, began, end := blocking()
		defer end()
		instance := func(name string) scheduled {
			l := gocronlock.New(c.Client, name)
			return schedule(t, l.Bind(f), l.Option()) // each has the same function, and the same name in gocron
		}
		instance("a").run(t)
		instance("b").run(t)
		errtest.Received(t, "job a", began)
		errtest.Received(t, "job b", began)
		for _, name := range []string{"a", "b"} {
			_, err := c.Mutex(name).TryAcquire(t.Context())
			errtest.Is(t, err, interlock.ErrBusy, "the mutex", name)
		}
	})
}

// Promise: work does not begin without the lock: an Option that was forgotten, or an Elector that takes its place.
func TestGocronRunsNoWorkWithoutItsLock(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), "mem:"))(t)
	defer c.Close()
	report := gocronlock.New(c, "report")
	bound := report.Bind(func(context.Context) error { t.Error("it runs"); return nil })
	j := schedule(t, bound, gocron.WithName("report"))
	j.run(t)
	errtest.Says(t, errtest.Received(t, "the run", j.ended), "Option", `"report"`)
	j = schedule(t, bound, report.Option(), gocron.WithDistributedElector(anyone{}))
	j.run(t)
	errtest.Says(t, errtest.Received(t, "the run", j.ended), "Elector", `"report"`)
}

type anyone struct{}

func (anyone) IsLeader(context.Context) error { return nil }

// candidate is an instance with an Elector.
type candidate struct {
	*instance
	*gocronlock.Elector
	stop  context.CancelFunc
	ended chan error // what Lead has returned
}

func stand(t *testing.T, url string) candidate {
	t.Helper()
	i := open(t, url)
	ctx, stop := context.WithCancel(t.Context())
	c := candidate{i, gocronlock.NewElector(i.Client, "scheduler"), stop, make(chan error, 1)}
	errtest.Is(t, c.IsLeader(t.Context()), interlock.ErrBusy, "IsLeader before Lead")
	go func() { c.ended <- c.Lead(ctx) }()
	return c
}

func (c candidate) leads(t *testing.T) {
	t.Helper()
	errtest.None(t, testserver.Until(func() (bool, error) { return c.IsLeader(t.Context()) == nil, nil }))
}

// Promise: the scheduler of the instance that leads runs the jobs, and the next one's when that stops; not before the
// work of Bind has returned, whose context ends.
func TestGocronLeadershipPassesOnWhenTheWorkHasEnded(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		first := stand(t, url)
		first.leads(t)
		second := stand(t, url)
		defer second.stop()
		errtest.None(t, first.waiting(t.Context(), "scheduler", 1))

		began, told, end := make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
		j := schedule(t, first.Bind(func(ctx context.Context) error {
			began <- struct{}{}
			told <- ended(ctx)
			<-end
			return nil
		}), gocron.WithName("job"), gocron.WithDistributedElector(first))
		j.run(t)
		errtest.Received(t, "the job", began)
		errtest.Is(t, second.IsLeader(t.Context()), interlock.ErrBusy, "IsLeader of the second")
		errtest.Is(t, second.Bind(func(context.Context) error { t.Error("it runs"); return nil })(t.Context()),
			interlock.ErrBusy, "work of the second")
		first.stop()
		errtest.Is(t, errtest.Received(t, "the job", told), context.Canceled, "the context of the job")
		errtest.Is(t, first.IsLeader(t.Context()), interlock.ErrBusy, "IsLeader of the first, which stops")
		errtest.None(t, first.waiting(t.Context(), "scheduler", 1)) // the second one still waits
		errtest.Is(t, second.IsLeader(t.Context()), interlock.ErrBusy, "IsLeader of the second while the work goes on")
		close(end)
		j.ends(t, nil)
		errtest.Is(t, errtest.Received(t, "Lead", first.ended), context.Canceled, "Lead")
		second.leads(t)
	})
}

func init() {
	holders["elector"] = func(url string) error {
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		e := gocronlock.NewElector(c, "scheduler")
		go e.Lead(context.Background())
		if err := testserver.Until(func() (bool, error) { return e.IsLeader(context.Background()) == nil, nil }); err != nil {
			return err
		}
		stop()
		if err := e.IsLeader(context.Background()); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("it leads")
		}
		select {}
	}
}

// Promise: an instance that stood still while another began to lead does not take itself for the leader when it goes
// on.
func TestGocronStoppedLeaderDoesNotLeadWhenItGoesOn(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		p, said := begin(t, "elector", url)
		if line := errtest.Received(t, "the other process", said); line != holding {
			t.Fatalf("the other process: %s", line)
		}
		next := stand(t, url)
		defer next.stop()
		next.leads(t)
		errtest.None(t, p.Resume())
		if line := errtest.Received(t, "what it takes itself for", said); !strings.Contains(line, "does not lead") {
			t.Errorf("it says: %s", line)
		}
	})
}

// Promise: a run that began under a leadership that is lost is told so, and fails. The instance stands again.
func TestGocronTellsTheJobThatTheLeadershipIsLost(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := stand(t, url)
		defer c.stop()
		c.leads(t)
		j := schedule(t, c.Bind(func(ctx context.Context) error {
			errtest.Is(t, c.loses(ctx, "scheduler", true), nil, "the loss")
			errtest.Is(t, ended(ctx), interlock.ErrLost, "the context of the job")
			return nil
		}), gocron.WithName("job"), gocron.WithDistributedElector(c))
		j.run(t)
		j.ends(t, interlock.ErrLost)
		c.leads(t)
	})
}

func Example_gocron() {
	ctx := context.Background()
	client, err := interlock.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan bool)
	report := gocronlock.New(client, "report", interlock.AtLeast(time.Minute))
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
		gocron.NewTask(report.Bind(func(ctx context.Context) error {
			fmt.Println("the report, under token", interlock.LeaseFrom(ctx).Token() > 0)
			done <- true
			return nil
		})),
		report.Option())
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-done
	fmt.Println(scheduler.Shutdown())
	// Output:
	// the report, under token true
	// <nil>
}
