// Package sqlite contributes what competes on SQLite: Interlock alone.
package sqlite

import (
	"context"
	"os"
	"path/filepath"

	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
)

// Backend is a file that is made here.
func Backend() workload.Backend {
	return workload.Backend{Name: "sqlite", Start: start, Contenders: ours.All}
}

func start(context.Context) (workload.Server, error) {
	dir, err := os.MkdirTemp("", "bench-sqlite-")
	path := filepath.ToSlash(filepath.Join(dir, "locks.db"))
	return workload.Server{
		URL: "sqlite:" + path, About: "a file in " + dir,
		Close: func() { _ = os.RemoveAll(dir) },
		// The log of the last transactions beside it does not grow with what is kept.
		Kept: func(ctx context.Context) (float64, error) { return workload.OnDisk(ctx, path) },
	}, err
}
