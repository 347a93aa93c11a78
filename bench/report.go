package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

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
	r.object(map[string]string{"machine": about})
	r.text("%s\n", about)
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
