package flashsale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crew is the worker processes of one sale.
type crew struct {
	ctx     context.Context
	exe     string
	job     job
	events  chan event
	workers []*worker // that with number n at n-1
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// worker is one process.
type worker struct {
	number  int
	process *os.Process
	in      *json.Encoder
	killed  atomic.Bool // its end is meant
}

// event is a worker's message, or its end if it had not finished: as it was meant, or
// with err.
type event struct {
	worker *worker
	message
	ended bool
	err   error
}

// hire starts the workers. When ctx ends they are killed.
func hire(ctx context.Context, j job, workers int) (*crew, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crew{exe: exe, job: j, events: make(chan event, 100), workers: make([]*worker, workers)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	for i := range c.workers {
		if err := c.add(i + 1); err != nil {
			c.dismiss()
			return nil, err
		}
	}
	return c, nil
}

// add starts the worker with that number, in place of the one that had it.
func (c *crew) add(number int) error {
	w := &worker{number: number}
	if err := c.begin(w); err != nil {
		return fmt.Errorf("start worker %d: %w", number, err)
	}
	c.workers[number-1] = w
	return nil
}

func (c *crew) begin(w *worker) error {
	cmd := exec.CommandContext(c.ctx, c.exe)
	cmd.Args[0] = os.Args[0] // a program may go by the name it was called by
	cmd.Env = append(os.Environ(), workerVariable+"=1")
	cmd.WaitDelay = 5 * time.Second
	last := &tail{}
	cmd.Stderr = last
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.process, w.in = cmd.Process, json.NewEncoder(in)
	c.running.Go(func() {
		finished, err := c.listen(w, out)
		ended := cmd.Wait()
		switch {
		case finished && ended == nil:
			return
		case w.killed.Load():
			c.send(event{worker: w, ended: true})
			return
		case err != nil:
		case ended != nil:
			err = ended
		default:
			err = errors.New("it ended before it was done")
		}
		c.send(event{worker: w, ended: true, err: fmt.Errorf("worker %d (process %d): %w%s", w.number, cmd.Process.Pid, err, last)})
	})
	j := c.job
	j.Worker = w.number
	_ = w.in.Encode(j) // A worker that is gone already has its end reported by the above.
	return nil
}

// listen passes a worker's messages on, and reports whether it said that it was
// done.
func (c *crew) listen(w *worker, out io.Reader) (finished bool, err error) {
	messages := json.NewDecoder(out)
	said := false
	for {
		var m message
		switch err := messages.Decode(&m); {
		case err == nil && m.Kind == failed:
			return false, errors.New(m.Error)
		case err == nil:
			said = true
			c.send(event{worker: w, message: m})
			if m.Kind == done {
				return true, nil
			}
		case !said:
			return false, errors.New("it did not become one; main must begin with flashsale.WorkerMain()")
		default:
			return false, nil // its exit status tells more
		}
	}
}

func (c *crew) send(e event) {
	select {
	case c.events <- e:
	case <-c.ctx.Done():
	}
}

// ask sends a request to a worker. One that is gone has its end reported by begin.
func (w *worker) ask(r request) { _ = w.in.Encode(r) }

// kill ends a worker, and that is no failure.
func (w *worker) kill() error {
	w.killed.Store(true)
	return w.process.Kill()
}

// wait returns when all workers have ended by themselves.
func (c *crew) wait() { c.running.Wait() }

// dismiss kills the workers that still run and returns when all are gone.
func (c *crew) dismiss() {
	c.cancel()
	c.running.Wait()
}

// tail keeps the end of what a worker writes to its standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4 << 10
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

// String is empty, or begins with a line feed.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return "\n" + text
	}
	return ""
}
