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
	"time"
)

// crew is the worker processes of one sale.
type crew struct {
	events  chan event
	inputs  []io.WriteCloser
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// event is a worker's message, or the end of a worker that had not finished.
type event struct {
	message
	err error
}

// hire starts the workers. When ctx ends they are killed.
func hire(ctx context.Context, j job) (*crew, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &crew{events: make(chan event, 100), cancel: cancel}
	for i := range j.Workers {
		j.Worker = i + 1
		if err := c.add(ctx, exe, j); err != nil {
			c.dismiss()
			return nil, fmt.Errorf("start worker %d: %w", j.Worker, err)
		}
	}
	return c, nil
}

func (c *crew) add(ctx context.Context, exe string, j job) error {
	cmd := exec.CommandContext(ctx, exe)
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
	c.inputs = append(c.inputs, in)
	c.running.Go(func() {
		finished, err := c.listen(ctx, out)
		ended := cmd.Wait()
		if finished && ended == nil {
			return
		}
		switch {
		case err != nil:
		case ended != nil:
			err = ended
		default:
			err = errors.New("it ended before it was done")
		}
		c.send(ctx, event{err: fmt.Errorf("worker %d (process %d): %w%s", j.Worker, cmd.Process.Pid, err, last)})
	})
	// A worker that is gone already has its end reported by the above.
	_ = json.NewEncoder(in).Encode(j)
	return nil
}

// listen passes a worker's messages on, and reports whether it said that it was
// done.
func (c *crew) listen(ctx context.Context, out io.Reader) (finished bool, err error) {
	messages := json.NewDecoder(out)
	said := false
	for {
		var m message
		switch err := messages.Decode(&m); {
		case err == nil && m.Kind == failed:
			return false, errors.New(m.Error)
		case err == nil:
			said = true
			c.send(ctx, event{message: m})
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

func (c *crew) send(ctx context.Context, e event) {
	select {
	case c.events <- e:
	case <-ctx.Done():
	}
}

// start lets all workers begin.
func (c *crew) start() {
	for _, in := range c.inputs {
		_ = json.NewEncoder(in).Encode(start{}) // as in add
	}
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
