// Package file contributes what competes on files.
package file

import (
	"context"
	"net/url"
	"os"
	"path/filepath"

	_ "github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
)

// Backend is a folder that is made here.
func Backend() workload.Backend {
	return workload.Backend{Name: "file", Start: start, Contenders: func(url string) []workload.Contender {
		return append([]workload.Contender{
			{Name: "flock", Settings: "flock(2): a file for each that holds or waits, and a thread for each that waits; no lease, no token", Open: openFlock(url)},
		}, ours.All(url)...)
	}}
}

func start(context.Context) (workload.Server, error) {
	dir, err := os.MkdirTemp("", "bench-file-")
	return workload.Server{
		URL: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(), About: "files in " + dir,
		Close: func() { _ = os.RemoveAll(dir) },
		Kept:  func(ctx context.Context) (float64, error) { return workload.OnDisk(ctx, dir) },
	}, err
}
