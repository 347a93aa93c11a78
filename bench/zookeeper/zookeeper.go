// Package zookeeper contributes what competes on ZooKeeper.
package zookeeper

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	_ "github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Backend starts a server whose writes do not wait for the disk.
func Backend() workload.Backend {
	jvm := &curator{}
	return workload.Backend{Name: "zookeeper",
		Start: func(ctx context.Context) (workload.Server, error) {
			s, err := start(ctx)
			if err != nil {
				return s, err
			}
			end := s.Close
			s.Close = func() {
				jvm.end()
				end()
			}
			return s, nil
		},
		Contenders: func(url string) []workload.Contender {
			return append([]workload.Contender{
				goZookeeper(url),
				{Name: "Curator", Settings: "InterProcessMutex in a warm JVM, a mutex for each thread", Compete: jvm.compete(url)},
			}, ours.All(url)...)
		},
	}
}

func start(ctx context.Context) (workload.Server, error) {
	s, end, err := workload.Launch(func(dir string) (*zktest.Server, error) {
		return zktest.Run(dir, zktest.JVM("-Xmx1g", "-XX:TieredStopAtLevel=4"), zktest.Config("maxSessionTimeout", "600000"))
	}, (*zktest.Server).Stop)
	if err != nil {
		return workload.Server{}, err
	}
	url := "zk://" + s.Addr // no path: all have the same ones, which the server repeats in what it sends
	// A JVM compiles what it has already run for some time.
	if r := workload.All()[3].Run(ctx, goZookeeper(url), workload.Env{Time: 3 * time.Second, Limit: 10 * time.Second}); r.Bad() {
		end()
		return workload.Server{}, fmt.Errorf("warming up: %+v", r)
	}
	stat, _ := s.Ask("srvr")
	version, _, _ := strings.Cut(strings.TrimPrefix(stat, "Zookeeper version: "), "-")
	return workload.Server{URL: url, About: "ZooKeeper " + version + ", one server, heap of 1 GiB, forceSync=no (writes do not wait for the disk)", Close: end,
		Kept: func(ctx context.Context) (float64, error) { return heap(ctx, strconv.Itoa(s.Pid())) }}, nil
}

// heap is what a JVM keeps after a collection.
func heap(ctx context.Context, pid string) (float64, error) {
	if out, err := exec.CommandContext(ctx, "jcmd", pid, "GC.run").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("jcmd: %w: %s", err, out)
	}
	// The objects that are reachable, and their bytes; the last line is the sum.
	out, err := exec.CommandContext(ctx, "jcmd", pid, "GC.class_histogram").Output()
	if err != nil {
		return 0, fmt.Errorf("jcmd: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "Total" {
			return strconv.ParseFloat(words[2], 64)
		}
	}
	return 0, fmt.Errorf("jcmd: no sum in:\n%.200s", out)
}
