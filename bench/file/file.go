// Package file contributes what competes on files.
package file

import (
	"context"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/bench/kernel"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
)

const (
	bareName  = "bare"
	flockName = "flock"
)

// Backend is a directory that is made here.
func Backend() workload.Backend {
	return workload.Backend{
		Name: "file",
		Start: func(context.Context) (workload.Server, error) {
			path, err := os.MkdirTemp("", "bench-file-")
			return directory(path), err
		},
		Contenders: contenders,
		Beside: map[string]string{
			"W1": bareName, "W2": bareName, "W3": flockName, "W4": flockName, "W4-hold": flockName, "W5": flockName,
		},
		Goals: []workload.Goal{
			{Workload: "W1", Who: ours.Default, Figure: "pairs/s", Of: []string{bareName}, AtLeast: 1. / 3},
			{Workload: "W9", Who: ours.Default, Figure: "from the kill, TTLs", AtMost: 0.1},
		},
	}
}

func contenders(at string) []workload.Contender {
	return append([]workload.Contender{
		{Name: bareName, Settings: "locks and unlocks a file that is open; never waits", Takes: strings.Fields("W1 W2"), Open: openBare(at)},
		{Name: flockName, Settings: "a file for each that holds or waits, and a thread for each that waits", Takes: strings.Fields("W1 W2 W3 W4 W4-hold W5"), Open: openFlock(at)},
	}, ours.All(at)...)
}

// directory is the path of the locks. There is no server whose use could be counted.
type directory string

func (d directory) URL() string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(string(d))}).String()
}

func (d directory) About() []string { return []string{"files in " + string(d)} }

func (d directory) Usage(context.Context) (workload.Usage, error) {
	no := math.NaN()
	return workload.Usage{Sent: no, Received: no, Commands: no, Scripts: no, Transactions: no}, nil
}

func (d directory) Clear(context.Context) error {
	if err := os.RemoveAll(string(d)); err != nil {
		return err
	}
	return os.Mkdir(string(d), 0o700)
}

func (d directory) Close() error { return os.RemoveAll(string(d)) }

// Kept is what the files take on the disk.
func (d directory) Kept(context.Context) (float64, error) { return kernel.OnDisk(string(d)) }
