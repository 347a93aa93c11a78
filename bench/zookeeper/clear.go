package zookeeper

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Clear deletes all nodes.
func (s *server) Clear(ctx context.Context) error {
	conn, err := connect(ctx, s.URL(), 30*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := below(conn, "/")
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- { // the deepest are last
		if err := remove(conn, all[i]); err != nil {
			return err
		}
	}
	return nil
}

// below lists all nodes below a path, level by level, but for ZooKeeper's own.
func below(conn *zk.Conn, path string) (levels [][]string, err error) {
	for level := []string{path}; len(level) > 0; {
		var mu sync.Mutex
		var next []string
		err := each(level, func(path string) error {
			children, _, err := conn.Children(path)
			if errors.Is(err, zk.ErrNoNode) {
				return nil // it was empty, and the server has removed it
			}
			mu.Lock()
			defer mu.Unlock()
			for _, name := range children {
				if child := strings.TrimSuffix(path, "/") + "/" + name; child != "/zookeeper" {
					next = append(next, child)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(next) > 0 {
			levels = append(levels, next)
		}
		level = next
	}
	return levels, nil
}

func remove(conn *zk.Conn, paths []string) error {
	return each(paths, func(path string) error {
		err := conn.Delete(path, -1)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
}

// each calls f with each path, many at a time, and returns one of their errors.
func each(paths []string, f func(path string) error) error {
	const many = 64
	next := make(chan string)
	errs := make(chan error, many)
	for range many {
		go func() {
			var one error
			for path := range next {
				if err := f(path); err != nil {
					one = err
				}
			}
			errs <- one
		}()
	}
	for _, path := range paths {
		next <- path
	}
	close(next)
	var one error
	for range many {
		if err := <-errs; err != nil {
			one = err
		}
	}
	return one
}
