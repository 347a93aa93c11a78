//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/examples/flashsale"
	"github.com/interlock-go/interlock/internal/redistest"
)

// saleLine is what the README says of a strategy: the pieces that were sold beyond the stock by one
// process, by several, and with --stop; and the seconds that several took. What was not sold is
// empty.
type saleLine struct{ strategy, one, several, stopped, seconds string }

// Promise: the table of the README, in each language, has the strategies of the demo, in its
// order, and says of each whether it oversells as the demo does, which is run.
func TestTheREADMEShowsWhatTheDemoPrints(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	some, few := []string{"--stock", "40", "--buyers", "120"}, []string{"--stock", "5", "--buyers", "20"}
	var lines []saleLine
	for column, args := range [][]string{append(some, "--workers", "1"), some, append(few, "--stop")} {
		for _, r := range demo(t, append(args, "--url", url)...) {
			if oversold := r.Oversold > 0; !r.Exact() && !oversold {
				t.Errorf("flash-sale %s: %s is neither exact nor oversold: %+v", args, r.Strategy, r)
			}
			i := slices.IndexFunc(lines, func(l saleLine) bool { return l.strategy == r.Strategy })
			if i < 0 {
				i = len(lines)
				lines = append(lines, saleLine{strategy: r.Strategy})
			}
			oversold := strconv.Itoa(r.Oversold)
			switch l := &lines[i]; {
			case column == 0:
				l.one = oversold
			case column == 1:
				l.several, l.seconds = oversold, fmt.Sprintf("%.1f", r.Seconds)
			default:
				l.stopped = oversold
			}
		}
	}
	files, err := filepath.Glob("../../README*.md")
	must(err)
	if len(files) < 3 {
		t.Errorf("%d files, want the README in three languages", len(files))
	}
	english := saleOf(t, "../../README.md")
	for _, file := range files {
		shown := saleOf(t, file)
		if !slices.Equal(shown, english) {
			t.Errorf("%s has %v, the README %v", filepath.Base(file), shown, english)
		}
		if !slices.EqualFunc(shown, lines, saleLine.agrees) {
			t.Errorf("%s shows\n%v\nthe demo has printed\n%v", filepath.Base(file), shown, lines)
		}
	}
}

// demo runs the sale.
func demo(t *testing.T, args ...string) (results []flashsale.Result) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "interlock", append([]string{"demo", "flash-sale", "--json"}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, said.String())
	}
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return results
}

// agrees reports whether two lines have the same verdicts: figures are another each time.
func (l saleLine) agrees(m saleLine) bool {
	verdict := func(s string) string {
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			return "oversold"
		}
		return s
	}
	return l.strategy == m.strategy && verdict(l.one) == verdict(m.one) && verdict(l.several) == verdict(m.several) && verdict(l.stopped) == verdict(m.stopped)
}

// sale is the table of the flash sale in a README.
var sale = regexp.MustCompile(`(?s)<!-- demo: flash-sale -->\n.*?<!-- /demo -->`)

// saleOf reads it. The second column says in words how the sale is protected.
func saleOf(t *testing.T, file string) (lines []saleLine) {
	t.Helper()
	for row := range strings.Lines(sale.FindString(readDocument(t, file))) {
		if c := cellsOf(row); strings.HasPrefix(row, "| `") && len(c) == 6 {
			for i := range c {
				c[i] = strings.Trim(c[i], "`*")
			}
			lines = append(lines, saleLine{c[0], c[2], c[3], c[4], c[5]})
		}
	}
	return lines
}
