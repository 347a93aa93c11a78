package file

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/flock"
)

// openFlock makes clients of the kernel alone.
func openFlock(at string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(context.Context, workload.Options) (workload.Client, error) {
		u, err := url.Parse(at)
		if err != nil {
			return workload.Client{}, err
		}
		var mu sync.Mutex
		var files []*os.File
		// Lock knows no context: nothing ends the wait but the lock.
		lock := func(name string) workload.Lock {
			var f *os.File
			return func(context.Context) (h workload.Held, err error) {
				if f == nil {
					if f, err = os.OpenFile(filepath.Join(u.Path, url.PathEscape(name)), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
						return h, err
					}
					mu.Lock()
					files = append(files, f)
					mu.Unlock()
				}
				return workload.Held{Release: func() error { return flock.Unlock(f) }}, flock.Lock(f)
			}
		}
		end := func() (err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, f := range files {
				err = errors.Join(err, f.Close())
			}
			return err
		}
		return workload.Client{Lock: lock, Close: end}, nil
	}
}
