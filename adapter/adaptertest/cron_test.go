package adaptertest

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/cronlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// entry is what a job of cron has told its log.
type entry struct {
	message string
	err     error
	pairs   string
}

// entries is a log of cron.
type entries chan entry

func (l entries) Info(message string, pairs ...any) { l.Error(nil, message, pairs...) }

func (l entries) Error(err error, message string, pairs ...any) {
	select {
	case l <- entry{message, err, fmt.Sprint(pairs...)}:
	default: // who looks has seen enough
	}
}

func (l entries) has(t *testing.T, message string, want error) {
	t.Helper()
	got := errtest.Received(t, "the log", l)
	if got.message != message {
		t.Errorf("the log has %v, want %q", got, message)
	}
	errtest.Is(t, got.err, want, "the log")
}

// table is the cron of one instance, with a job that runs at once when the test calls Run.
func table(c *interlock.Client, l cron.Logger, job cron.Job, opts ...interlock.Option) cron.Job {
	t := cron.New(cron.WithChain(cron.Recover(l), cronlock.New(c, "report", l, opts...)))
	return t.Entry(t.Schedule(cron.Every(time.Hour), job)).WrappedJob
}

// Promise: the instance that has the lock runs the job; another does not wait for it, skips the run and says so, also
// when the job has ended, within the time of AtLeast.
func TestCronRunsAJobOnOneInstanceThoughClocksDiffer(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		f, began, end := blocking()
		var ran atomic.Int64
		job := cronlock.Func(func(ctx context.Context) { ran.Add(1); _ = f(ctx) })
		logs := []entries{make(entries, 10), make(entries, 10)}
		first := table(open(t, url).Client, logs[0], job, interlock.AtLeast(time.Hour))
		second := table(open(t, url).Client, logs[1], job, interlock.AtLeast(time.Hour), interlock.Wait(time.Hour))
		done := make(chan struct{}, 1)
		go func() { first.Run(); done <- struct{}{} }()
		errtest.Received(t, "the job", began)
		second.Run()
		logs[1].has(t, "skip", nil)
		first.Run()
		logs[0].has(t, "skip", nil)
		end()
		errtest.Received(t, "the end of the job", done)
		second.Run()
		logs[1].has(t, "skip", nil)
		if n := ran.Load(); n != 1 {
			t.Errorf("the job ran %d times", n)
		}
	})
}

func init() {
	holders["cron"] = func(url string) error {
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		table(c, cron.DefaultLogger, cron.FuncJob(holds)).Run()
		return nil
	}
}

// Promise: runs are skipped while another process has the lock, and no longer when it has been killed.
func TestCronGoesOnWhenTheHolderIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		kill := startHolder(t, "cron", url)
		log, ran := make(entries, 1), make(chan struct{}, 1)
		job := table(open(t, url).Client, log, cron.FuncJob(func() {
			select {
			case ran <- struct{}{}:
			default:
			}
		}))
		c := cron.New()
		c.Schedule(soon{}, job)
		c.Start()
		defer c.Stop()
		log.has(t, "skip", nil)
		kill()
		errtest.Received(t, "the job", ran)
	})
}

// soon is a schedule of many runs in a second.
type soon struct{}

func (soon) Next(t time.Time) time.Time { return t.Add(20 * time.Millisecond) }

// Promise: the context of a job ends when its lock is lost, and the log is told.
func TestCronTellsTheJobThatTheLockIsLost(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c, log := open(t, url), make(entries, 10)
		table(c.Client, log, cronlock.Func(func(ctx context.Context) {
			errtest.Is(t, c.loses(ctx, "report", true), nil, "the loss")
			errtest.Is(t, ended(ctx), interlock.ErrLost, "the context of the job")
		})).Run()
		log.has(t, "lock lost", interlock.ErrLost)
	})
}

// Promise: a job that panics releases the lock.
func TestCronUnlocksThoughTheJobPanics(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		other, log := open(t, url), make(entries, 10)
		table(open(t, url).Client, log, cron.FuncJob(func() { panic("a job") })).Run()
		if got := errtest.Received(t, "the log", log); got.message != "panic" {
			t.Errorf("the log has %v", got)
		}
		other.free(t, "report")
	})
}

// Promise: a run whose lock could not be asked for is skipped, and told as an error.
func TestCronTellsWhyItCouldNotAsk(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), "mem:"))(t)
	errtest.None(t, c.Close())
	log := make(entries, 10)
	table(c, log, cron.FuncJob(func() { t.Error("it runs") })).Run()
	log.has(t, "skip", interlock.ErrClosed)
}

func Example_cron() {
	client, err := interlock.Open(context.Background(), "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	table := cron.New()
	report := cron.NewChain(cronlock.New(client, "report", cron.DefaultLogger, interlock.AtLeast(time.Minute)))
	id, err := table.AddJob("0 3 * * *", report.Then(cronlock.Func(func(ctx context.Context) {
		fmt.Println("the report, under token", interlock.LeaseFrom(ctx).Token() > 0)
	})))
	if err != nil {
		log.Fatal(err)
	}
	table.Entry(id).WrappedJob.Run() // else at three o'clock
	// Output: the report, under token true
}

// Promise: a wrapper without a log skips a run as others do.
func TestCronSkipsWithoutALog(t *testing.T) {
	t.Parallel()
	c := open(t, redis.Lend(t).URL())
	lease := errtest.Must(c.Mutex("report").Acquire(t.Context()))(t)
	cronlock.New(c.Client, "report", nil)(cron.FuncJob(func() { t.Error("it runs") })).Run()
	errtest.None(t, lease.Release())
}
