package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
)

// job is a command to run under a lock.
type job struct {
	o        *options
	flags    *jobFlags
	verb     string // the command's name, for messages
	names    []string
	name     string // of all of them, for messages
	args     []string
	again    bool // after a loss, acquire and run again
	onRevoke syscall.Signal
	options  []interlock.Option
	lock     func(c *interlock.Client, name string) *interlock.Lock

	atLeast time.Duration

	notice   *notice
	say      *teller
	c        *client
	backend  backend
	entries  []string             // of INTERLOCK_HELD
	acquired time.Time            // when this process learned of the grant
	renewed  chan struct{}        // has a value after each renewal
	doubt    chan error           // has the reason when a renewal has failed
	overrun  chan interlock.Event // has one when the job goes on after the loss
}

// job reads NAME… -- COMMAND [ARG]…, with so many names at most.
func (f *jobFlags) job(cmd *cobra.Command, o *options, args []string, most int) (*job, error) {
	names, command, err := f.split(cmd, args, "NAME")
	if err != nil {
		return nil, err
	}
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	if len(once) > most {
		return nil, usage("%s takes one NAME, not %d", cmd.CommandPath(), len(once))
	}
	return f.under(cmd, o, once, command)
}

// split parts the arguments into those before --, where the wanted ones must be there, and the
// command.
func (f *jobFlags) split(cmd *cobra.Command, args []string, wanted ...string) (before, command []string, err error) {
	dash := cmd.ArgsLenAtDash()
	at := dash
	switch {
	case dash < 0 && f.shell != "":
		at = len(args)
	case dash < 0:
		at = min(len(wanted), len(args))
	}
	before, command = args[:at], args[at:]
	path := strings.Join(append([]string{cmd.CommandPath()}, before...), " ")
	switch {
	case len(before) < len(wanted):
		return nil, nil, usage("%s is missing (see %s --help)", wanted[len(before)], cmd.CommandPath())
	case f.shell != "" && len(command) > 0:
		return nil, nil, usage("-c and a command exclude each other")
	case f.shell != "" && runtime.GOOS == "windows":
		command = []string{"cmd", "/C", f.shell}
	case f.shell != "":
		command = []string{"/bin/sh", "-c", f.shell}
	case len(command) == 0:
		return nil, nil, usage("COMMAND is missing: %s -- COMMAND [ARG]…", path)
	case dash < 0:
		return nil, nil, usage("write -- before the command: %s -- %s", path, command[0])
	}
	return before, command, nil
}

// under makes a job of the command under the names.
func (f *jobFlags) under(cmd *cobra.Command, o *options, names, command []string) (*job, error) {
	j := &job{o: o, flags: f, verb: strings.TrimPrefix(cmd.CommandPath(), "interlock "), names: names, name: strings.Join(names, ", "), args: command}
	if cmd.Flags().Changed("ttl") && f.ttl < shortestTTL {
		return nil, usage("--ttl %v: a job needs at least %v, or a busy machine ends it", f.ttl, shortestTTL)
	}
	if err := f.waitFlags.check(cmd); err != nil {
		return nil, err
	}
	if f.revoked != "" {
		s, err := signalNamed(f.revoked)
		if err != nil {
			return nil, usage("--on-revoke: %w", err)
		}
		j.onRevoke = s
	}
	note := f.note
	if note == "" {
		note = filepath.Base(j.args[0])
		if f.shell != "" {
			note = "sh"
		}
	}
	j.options = f.options(note)
	var err error
	j.notice = newNotice(cmd.ErrOrStderr())
	if j.say, err = newTeller(j.notice, f, o.json); err != nil {
		return nil, err
	}
	j.say.name = j.name
	return j, nil
}

// run acquires the lock and runs the job under it.
func (j *job) run(cmd *cobra.Command) error {
	begun := time.Now()
	ctx, stop, err := j.begin(cmd)
	if err != nil {
		return err
	}
	defer func() { stop() }()
	defer j.c.finish()
	lock := j.locks(j.c.Client)
	next := lock
	if j.flags.wait > 0 { // the opening was a part of it
		next = lock.With(interlock.Wait(j.left(begun)))
	}
	for {
		lease, err := j.acquire(ctx, next)
		next = lock
		if err != nil {
			return err
		}
		// A signal ends the job, or a wait, and no release: others would wait for the TTL.
		result, err := j.guarded(ctx, lease, stop, func() { ctx, stop = untilSignal(cmd.Context()) })
		if err == nil {
			return j.over(result)
		}
		stop()
		switch signal := ended(ctx); {
		case signal != nil && j.again:
			return signal
		case signal != nil || !errors.Is(err, interlock.ErrLost):
			return err
		}
		ctx, stop = untilSignal(cmd.Context())
		if !j.again && !j.unused(ctx, err) {
			return err
		}
		j.say.warn("%s; waiting for %s again", trim(err), j.name)
	}
}

// begin opens the client. The context ends with a signal; stop gives the signals up.
func (j *job) begin(cmd *cobra.Command) (_ context.Context, stop func(), _ error) {
	if _, err := guard.LookPath(j.args[0]); err != nil {
		return nil, nil, startFailed(err)
	}
	// A reader of standard error that has gone must not end this process, and so the job.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	j.renewed = make(chan struct{}, 1)
	j.doubt = make(chan error, 1)
	j.overrun = make(chan interlock.Event, 1)
	opts := []interlock.ClientOption{interlock.Observe(func(_ context.Context, e interlock.Event) {
		switch e.Kind {
		case interlock.EventRenewed:
			select {
			case j.renewed <- struct{}{}:
			default: // the one that is due will see this renewal too
			}
		case interlock.EventInDoubt:
			select {
			case j.doubt <- e.Err:
			default:
			}
		case interlock.EventOverrun:
			select {
			case j.overrun <- e:
			default: // of several locks, one that is told of is enough
			}
		}
	})}
	ctx, stop := untilSignal(cmd.Context())
	ttl, err := j.ttl(ctx)
	if ttl != 0 {
		opts = append(opts, interlock.TTL(ttl))
	}
	if err == nil {
		err = j.open(ctx, opts...)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// open opens the client of the command. It refuses locks that the process runs under already.
func (j *job) open(ctx context.Context, opts ...interlock.ClientOption) error {
	opening, cancel := answering(ctx, j.openTime())
	c, b, err := j.o.open(opening, append(opts, interlock.Observe(func(_ context.Context, e interlock.Event) {
		if e.Kind == interlock.EventRetry {
			j.c.retried(e.Err)
		}
	}))...)
	cancel()
	if err != nil {
		return err
	}
	j.c = newClient(c, j.names[0], func(event, text string) { j.say.tell(event, "", "%s", text) })
	j.say.tell("backend", "", "backend %s (%s), TTL %v", b.shown(), b.source, c.TTL())
	if b.silent && (j.again || j.atLeast > 0 || unattended()) {
		j.say.warn(ofOneMachine)
	}
	j.backend = b
	for _, name := range j.names {
		entry := heldEntry(b, name)
		if heldAlready(entry) {
			j.c.finish()
			return usage("%s %s: the process that started this one holds the lock already; waiting for it would never end", j.verb, name)
		}
		j.entries = append(j.entries, entry)
	}
	return nil
}

// left is what is left of the time to wait, which began with the command.
func (j *job) left(begun time.Time) time.Duration { return max(j.flags.wait-time.Since(begun), 0) }

// locks is the lock of the name, or of all names.
func (j *job) locks(c *interlock.Client) *interlock.Lock {
	if len(j.names) == 1 {
		return j.lock(c, j.names[0])
	}
	var all []*interlock.Lock
	for _, name := range j.names {
		all = append(all, j.lock(c, name))
	}
	return interlock.All(all...).With(j.options...)
}

// unused reports whether a lease was lost before the job was started, for no other reason
// than that it had nearly run out when it was granted. Nothing has been done under it.
func (j *job) unused(ctx context.Context, err error) bool {
	return errors.Is(err, errNotStarted) && !errors.Is(err, interlock.ErrEvicted) && j.c.ask(ctx, lastWord) == nil
}

var errNotStarted = errors.New("before the job was started")

// ttl is what a client of the job asks for, 0 if the URL says it, or nobody does.
func (j *job) ttl(ctx context.Context) (time.Duration, error) {
	if j.flags.ttl != 0 {
		return j.flags.ttl, nil
	}
	b, err := j.o.backend(ctx)
	if err != nil {
		return 0, err
	}
	u, err := driver.ParseURL(b.url)
	if err != nil || u.Duration("ttl", shortestTTL) >= shortestTTL {
		return 0, nil // opening it says why
	}
	return shortestTTL, nil
}

// openTime is how long the backend may take to be opened. One that is slow, but no slower
// than most, is not away because somebody does not want to wait for the lock.
func (j *job) openTime() time.Duration {
	if j.flags.wait == 0 {
		return patience
	}
	return min(max(j.flags.wait, lastWord), patience)
}

// claim is what a job waits for before it begins.
type claim struct {
	get   func(context.Context) (*interlock.Lease, error)
	looks func(context.Context) iter.Seq2[string, error] // what is told meanwhile
	busy  func(context.Context, error) string            // what is said when the time to wait has run out
}

func (j *job) acquire(ctx context.Context, lock *interlock.Lock) (*interlock.Lease, error) {
	return j.take(ctx, claim{lock.Acquire, j.holders, func(ctx context.Context, _ error) string {
		return j.name + " is busy" + j.holder(ctx)
	}})
}

func (j *job) take(ctx context.Context, what claim) (*interlock.Lease, error) {
	j.say.tell("waiting", "", "waiting for %s", j.name)
	every := pulse
	if j.flags.wait > 0 {
		every = min(every, max(j.flags.wait/4, pulse/10))
	}
	unwatch := j.c.watch(ctx, every)
	silence := j.onlook(ctx, what.looks)
	lease, err := what.get(waitsUnder(ctx))
	silence()
	unwatch()
	select {
	case <-j.doubt: // it was about the lease before
	default:
	}
	select {
	case <-j.overrun:
	default:
	}
	switch {
	case err == nil:
		j.acquired = time.Now()
		tokens := tokens(lease)
		j.say.tell("acquired", strings.Join(tokens, " "), "acquired %s, token %s", j.name, strings.Join(tokens, ", "))
		return lease, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, interlock.ErrBusy), j.flags.wait > 0 && errors.Is(err, interlock.ErrUnavailable):
		busy := what.busy(ctx, err)
		if why := unanswered(err, j.c.whyAway(), j.c.finish()); why != err {
			return nil, why
		}
		if errors.Is(err, interlock.ErrUnavailable) { // it is back, or grants nothing
			return nil, failed(exitUnreachable, err)
		}
		j.say.tell("busy", "", "%s", busy)
		return nil, &exitError{code: j.flags.busy}
	case errors.Is(err, interlock.ErrLost):
		j.say.tell("lost", "", "lost %s before the job was started", j.name)
		return nil, failed(exitLost, err)
	case errors.Is(err, interlock.ErrInvalid), errors.Is(err, interlock.ErrMismatch), errors.Is(err, errors.ErrUnsupported):
		return nil, failed(exitUsage, err)
	}
	return nil, failed(exitUnreachable, err)
}

// leftoversAfter is how long after the command its children may end before
// somebody wonders why the lock is kept.
const leftoversAfter = 200 * time.Millisecond

// guarded runs the job under the lease and releases it when nobody is left. The signals of this
// process are given up by stop when the guard takes over; the job is not begun if one came before. When
// nobody is left, and before the release, gone is called.
func (j *job) guarded(ctx context.Context, lease *interlock.Lease, stop, gone func()) (guard.Result, error) {
	run, err := j.start(ctx, lease, func() error {
		stop()
		return ended(ctx)
	})
	if err != nil {
		lost := lease.Err()
		if signal := ended(ctx); signal != nil {
			_ = within(lastWord, lease.Release)
			return guard.Result{}, signal
		}
		gone()
		if released := within(lastWord, lease.Release); lost == nil && errors.Is(released, interlock.ErrLost) {
			lost = released
		}
		if lost != nil {
			j.say.tell("lost", "", "lost %s before the job was started", j.name)
			return guard.Result{}, failed(exitLost, fmt.Errorf("run %s: %w, %w", j.name, lost, errNotStarted))
		}
		return guard.Result{}, startFailed(err)
	}
	defer run.Close() // gone catches the signals before

	_, free := lease.Bind(context.Background()) // the job is work, which the client looks after
	why := j.follow(run, lease)
	result := run.Wait()
	gone()
	free()
	if result.Cause == guard.Lost {
		_ = within(lastWord, lease.Release)
		j.say.tell("lost", "", "lost %s, the job was ended", j.name)
		return result, failed(exitLost, fmt.Errorf("run %s: the job was ended: %w", j.name, why))
	}
	if lost := j.release(lease); lost != nil {
		j.say.tell("lost", "", "lost %s as the job ended", j.name)
		return result, failed(exitLost, fmt.Errorf("%w, as the job ended (its status was %d)", lost, result.ExitCode()))
	}
	return result, nil
}

// over tells how a job has ended that had its lock until then, and exits as it did.
func (j *job) over(result guard.Result) error {
	if result.Cause == guard.GuardDied {
		j.say.warn("the guard of %s was killed, and the job with it", j.name)
	}
	j.say.tell("ended", strconv.Itoa(result.ExitCode()), "the job ended with status %d", result.ExitCode())
	if code := result.ExitCode(); code != 0 {
		return &exitError{code: code, job: result}
	}
	return nil
}

// start starts the job, once enough is left of the lease: a grant that came late may have
// used up most of it, and the job would be asked to end at once.
func (j *job) start(ctx context.Context, lease *interlock.Lease, ready func() error) (*guard.Job, error) {
	enough := j.c.TTL() / 3
	left := lease.Remaining()
	if left < enough {
		var err error
		if left, err = j.renewal(ctx, lease, enough); err != nil {
			return nil, err
		}
	}
	return guard.Start(guard.Spec{
		Args:     j.args,
		Env:      j.environment(lease),
		TTL:      j.c.TTL(),
		Deadline: driver.Now().Add(left),
		Liveness: lease.Liveness(),
		GiveBack: j.tickets(lease),
		Judge:    lease.Err,
		Ready:    ready,
		Renewed: func() (driver.Instant, error) {
			// Signals are for the job by now; it gets them when it has begun.
			left, err := j.renewal(context.Background(), lease, enough)
			return driver.Now().Add(left), err
		},
	})
}

// renewal waits until the lease has been renewed and enough is left of it.
func (j *job) renewal(ctx context.Context, lease *interlock.Lease, enough time.Duration) (time.Duration, error) {
	for {
		select {
		case <-j.renewed:
			if left := lease.Remaining(); left >= enough {
				return left, nil
			}
		case <-lease.Done():
			return 0, lease.Err()
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// follow stays with the job until nobody of it is left. It tells the guard of renewals,
// the user of what happens, and the job of what others want of it. It returns why the guard
// has ended the job, if it has.
func (j *job) follow(run *guard.Job, lease *interlock.Lease) (why error) {
	// Renewals are passed on even while nobody reads what this process writes.
	began := time.Now()
	var last atomic.Int64 // renewal, as time since began
	over, passed := make(chan struct{}), make(chan struct{})
	steady := make(chan struct{}, 1)
	go func() {
		defer close(passed)
		for {
			select {
			case <-j.renewed:
				if lease.Err() == nil {
					run.Deadline(deadline(lease))
					last.Store(int64(time.Since(began)))
				}
				select {
				case steady <- struct{}{}:
				default:
				}
			case <-over:
				return
			}
		}
	}()
	defer func() { close(over); <-passed }()

	var doubt error
	done, revoked, ended := lease.Done(), lease.Revoked(), run.Ended()
	var stays <-chan time.Time
	for {
		select {
		case <-run.Done():
			switch why = lease.Err(); {
			case errors.Is(why, interlock.ErrEvicted):
				return why
			case why == nil: // the guard was ahead of the loss
				why = fmt.Errorf("%w: it was not renewed in time: %v were left", interlock.ErrLost, lease.Remaining().Round(time.Millisecond))
			}
			silence := time.Since(began) - time.Duration(last.Load())
			if ttl := j.c.TTL(); silence > ttl/6 { // else the last renewal has proven little
				why = fmt.Errorf("%w (no renewal for %v of a TTL of %v)", why, silence.Round(time.Millisecond), ttl)
			} else {
				why = fmt.Errorf("%w (the TTL is %v)", why, ttl)
			}
			if doubt != nil {
				why = fmt.Errorf("%w: %w", why, doubt)
			}
			return why
		case <-ended:
			ended, stays = nil, time.After(leftoversAfter)
		case <-stays:
			j.say.tell("leftovers", "", "the command has ended; %s is kept until what it has started has ended too", j.name)
		case <-steady:
			if doubt != nil && !lease.InDoubt() {
				doubt = nil
				j.say.tell("back", "", "%s is certain again", j.name)
			}
		case e := <-j.overrun:
			if e.Err != nil {
				seconds := int(e.Took.Seconds())
				j.say.tell("overrun", strconv.Itoa(seconds), "the job goes on, %v after %s was lost", e.Took.Round(100*time.Millisecond), e.Name)
			}
		case doubt = <-j.doubt:
			j.say.tell("in-doubt", "", "%s is in doubt: %v", j.name, doubt)
		case <-revoked:
			revoked = nil
			j.say.tell("revoked", "", "somebody asks for %s", j.name)
			if j.onRevoke != 0 {
				run.Signal(j.onRevoke)
			}
		case <-done:
			done = nil
			if errors.Is(lease.Err(), interlock.ErrEvicted) {
				run.Stop() // there is time until the deadline
			} else {
				run.Kill()
			}
		}
	}
}

// release gives the lock back after the job has ended. It returns an error if the lock was
// lost before, so that the job may not have been alone; not if the backend does not answer.
// Then the lock frees itself within a TTL, and nobody waits for that here.
func (j *job) release(lease *interlock.Lease) (lost error) {
	if err := lease.Err(); err != nil {
		_ = within(lastWord, lease.Release)
		return err
	}
	end := deadline(lease)
	limit := lastWord
	if lease.InDoubt() {
		limit /= 4
	}
	if keep := time.Until(j.acquired.Add(j.atLeast)); keep > 0 {
		// Others are kept out only if the backend hears of it.
		limit = max(limit, min(keep, end.Sub(driver.Now())))
		if lease.InDoubt() {
			j.say.warn("the backend does not answer; trying for %v to keep %s as long as --at-least says", limit.Round(time.Second), j.name)
		}
	}
	err := within(limit, lease.Release)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, interlock.ErrLost):
	case driver.Now() < end:
		return err // the backend has said so
	default:
		err = errors.New("the lease ran out before the backend answered")
	}
	j.c.silent(err)
	j.say.tell("unreleased", "", "%s could not be given back (%s); it frees itself within %v", j.name, reason(err), j.c.TTL())
	return nil
}

// deadline is when the lease ends, on the clock that guards use.
func deadline(l *interlock.Lease) driver.Instant { return driver.Now().Add(l.Remaining()) }

// The variables that tell a job of its locks, beside heldVariable. A value of an outer job would
// stand before that of this one, and be taken by most programs.
const (
	nameVariable      = "INTERLOCK_NAME"
	tokenVariable     = "INTERLOCK_TOKEN"
	exclusiveVariable = "INTERLOCK_EXCLUSIVE"
)

func (j *job) environment(l *interlock.Lease) []string {
	var env []string
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case nameVariable, tokenVariable, exclusiveVariable, heldVariable, ticketsVariable, urlVariable:
		default:
			env = append(env, v)
		}
	}
	if j.flags.passURL {
		env = append(env, urlVariable+"="+j.backend.url)
	}
	return append(env,
		nameVariable+"="+strings.Join(j.names, "\n"),
		tokenVariable+"="+strings.Join(tokens(l), "\n"),
		exclusiveVariable+"="+exclusive(l),
		heldVariable+"="+heldBy(strings.Join(j.entries, "\n")),
		ticketsVariable+"="+ticketsBy(l),
	)
}

// exclusive is yes if nobody else holds any of the locks at the same time, else no.
func exclusive(l *interlock.Lease) string {
	if l.Exclusive() {
		return "yes"
	}
	return "no"
}

// tokens has the token of each lock, in the order of the names.
func tokens(l *interlock.Lease) (all []string) {
	for _, p := range l.Parts() {
		all = append(all, strconv.FormatUint(p.Token(), 10))
	}
	return all
}

// startFailed gives a command that cannot be run the exit code that shells do.
func startFailed(err error) error {
	var s *guard.StartError
	var sig signalled
	switch {
	case errors.As(err, &s):
		return failed(s.Code, fmt.Errorf("cannot run %w", err))
	case errors.As(err, &sig):
		return err
	}
	return failed(exitSystem, err)
}
