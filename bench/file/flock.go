package file

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/flock"
)

// client locks with the kernel alone.
type client struct {
	dir   string
	waits bool

	mu   sync.Mutex
	free map[string][]*os.File // that are open, and not locked
}

func openBare(at string) func(context.Context, workload.Options) (workload.Client, error) {
	return open(at, false)
}

func openFlock(at string) func(context.Context, workload.Options) (workload.Client, error) {
	return open(at, true)
}

func open(at string, waits bool) func(context.Context, workload.Options) (workload.Client, error) {
	return func(context.Context, workload.Options) (workload.Client, error) {
		u, err := url.Parse(at)
		if err != nil {
			return nil, err
		}
		return &client{dir: u.Path, waits: waits, free: map[string][]*os.File{}}, nil
	}
}

func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, files := range c.free {
		for _, f := range files {
			f.Close()
		}
	}
	return nil
}

// path is where ours have the file of a lock.
func (c *client) path(name string) string {
	return filepath.Join(c.dir, strings.ReplaceAll(name, "/", "%2F"))
}

// waiting is how many wait in this process, by path.
var waiting sync.Map

func queued(path string) *atomic.Int64 {
	n, _ := waiting.LoadOrStore(path, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// Queued counts those who have called the kernel, or are about to.
func (c *client) Queued(_ context.Context, name string) (int, error) {
	return int(queued(c.path(name)).Load()), nil
}

// Lock knows no context: nothing ends the wait but the lock.
func (c *client) Lock(name string) workload.Lock {
	path := c.path(name)
	n := queued(path)
	return func(context.Context) (workload.Held, error) {
		f, err := c.open(path)
		if err != nil {
			return nil, err
		}
		got, err := flock.Try(f)
		if err == nil && !got {
			if !c.waits {
				f.Close()
				return nil, errors.New("the lock is taken")
			}
			n.Add(1)
			err = flock.Lock(f)
			n.Add(-1)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return held{c, f}, nil
	}
}

func (c *client) open(path string) (*os.File, error) {
	c.mu.Lock()
	files := c.free[path]
	if last := len(files) - 1; last >= 0 {
		c.free[path] = files[:last]
		c.mu.Unlock()
		return files[last], nil
	}
	c.mu.Unlock()
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

type held struct {
	c *client
	f *os.File
}

func (h held) Release() error {
	if err := flock.Unlock(h.f); err != nil {
		return err
	}
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.c.free[h.f.Name()] = append(h.c.free[h.f.Name()], h.f)
	return nil
}
