package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// machine says what the figures were measured on.
func machine(w io.Writer) {
	fmt.Fprintf(w, "CPU: %d × %s; memory: %s; kernel: %s; load: %s; %s\n", runtime.NumCPU(),
		field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"), firstLine("/proc/sys/kernel/osrelease"), firstLine("/proc/loadavg"), runtime.Version())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Replace == nil && slices.ContainsFunc(measured, func(part string) bool { return strings.Contains(d.Path, part) }) {
				fmt.Fprintf(w, "%s %s\n", d.Path, d.Version)
			}
		}
	}
}

// measured are parts of the names of the modules whose versions matter.
var measured = []string{"zookeeper", "sqlite", "redis", "redsync", "rueidis", "pgx", "go-sql-driver", "go.etcd.io/etcd/client/v3"}

func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

func firstLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
