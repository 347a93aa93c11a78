package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/bench/figures"
	"github.com/interlock-go/interlock/bench/workload"
)

// report prints Markdown, or JSON.
type report struct {
	out  io.Writer
	json bool
}

// machine says what the figures are measured on.
func (r *report) machine() {
	load, _, _ := strings.Cut(valueOf("/proc/loadavg", ""), " ")
	about := fmt.Sprintf("%d processors (%s), memory of %s, %s; load when it began: %s", runtime.NumCPU(),
		valueOf("/proc/cpuinfo", "model name"), valueOf("/proc/meminfo", "MemTotal"), runtime.Version(), load)
	m := figures.Machine{Machine: about, RoundTrip: micros(roundTrip), DurableWrite: micros(durableWrite)}
	r.object(m)
	r.text("%s\n", m)
}

// micros is the median of what is measured, in microseconds; 0 if it cannot be.
func micros(measured func() ([]time.Duration, error)) float64 {
	all, err := measured()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 0
	}
	slices.Sort(all)
	return float64(all[len(all)/2]) / float64(time.Microsecond)
}

// roundTrip sends a byte over the loopback interface and reads one back.
func roundTrip() (all []time.Duration, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			_, _ = io.Copy(c, c)
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return repeat(2000, func(b []byte) error {
		if _, err := c.Write(b[:1]); err != nil {
			return err
		}
		_, err := c.Read(b[:1])
		return err
	})
}

// durableWrite appends 4 KiB to a file in the folder for temporary files, and waits for the disk.
func durableWrite() (all []time.Duration, err error) {
	f, err := os.CreateTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return repeat(100, func(b []byte) error {
		_, err := f.Write(b)
		return errors.Join(err, f.Sync())
	})
}

func repeat(n int, do func([]byte) error) (all []time.Duration, err error) {
	b := make([]byte, 4096)
	for range n {
		began := time.Now()
		if err := do(b); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
	}
	return all, nil
}

// valueOf is what stands behind the name and a colon in a file, or its first line.
func valueOf(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if name == "" {
			return strings.TrimSpace(line)
		}
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func (r *report) text(format string, args ...any) {
	if !r.json {
		fmt.Fprintf(r.out, format, args...)
	}
}

func (r *report) object(v any) {
	if r.json {
		_ = json.NewEncoder(r.out).Encode(v)
	}
}

func (r *report) header(cells ...string) {
	r.line(cells...)
	r.line(strings.Split(strings.Repeat("---,", len(cells)-1)+"---", ",")...)
}

func (r *report) line(cells ...string) { r.text("| %s |\n", strings.Join(cells, " | ")) }

// result is the line of a contender.
func (r *report) result(w workload.Workload, m workload.Result, settings string) {
	cells := []string{m.Contender}
	for _, f := range w.Figures {
		text := "–"
		if v, known := m.Figures[f]; known {
			decimals := 1
			if v < 10 {
				decimals = 3
			}
			text = strconv.FormatFloat(v, 'f', decimals, 64)
		}
		cells = append(cells, text)
	}
	r.line(append(cells, mistakes(m), settings)...)
}

// mistakes are what a contender did that no lock may do.
func mistakes(m workload.Result) string {
	all := m.Wrong
	if m.Stuck != "" {
		all = append(all, "left waiting: "+m.Stuck)
	}
	if m.Failed != "" {
		all = append(all, m.Failed)
	}
	if len(all) == 0 {
		return "none"
	}
	return "**" + strings.Join(all, "; ") + "**"
}
