//go:build linux

package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a note of ten megabytes, which no client writes, costs those who look little memory and
// little room.
func TestAHugeNoteCostsLittle(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "locks.db")
	url := "sqlite:" + filepath.ToSlash(file)
	c := errtest.Must(interlock.Open(t.Context(), url, interlock.TTL(time.Hour)))(t)
	defer c.Close()
	for i := range 20 {
		errtest.None(t, acquire(t, c.Mutex(fmt.Sprint("q", i), interlock.Note("note"))))
	}
	db := errtest.Must(sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)"))(t)
	defer db.Close()
	forge(t, db, "q7", func(m *rows.Ticket) { m.Note = bytes.Repeat([]byte("0"), 10_000_000) })
	for _, args := range [][]string{{"ls"}, {"ls", "-o", "wide"}, {"ls", "--json"}, {"show", "q7"}, {"show", "--json", "q7"}} {
		cmd := cli(t, url, args...)
		var traces bytes.Buffer // what the kernel counts for a child begins with the memory of its parent
		cmd.Env, cmd.Stderr = append(cmd.Environ(), "GODEBUG=gctrace=1"), &traces
		out, err := cmd.Output()
		if err != nil || !bytes.Contains(out, []byte("…")) {
			t.Errorf("%v: %v, it writes %.2000s", args, err, out)
		}
		if len(out) > 50_000 {
			t.Errorf("%v writes %d bytes", args, len(out))
		}
		collections := regexp.MustCompile(`(\d+)->(\d+)->\d+ MB`).FindAllStringSubmatch(traces.String(), -1)
		for _, heap := range collections {
			if mb, _ := strconv.Atoi(heap[2]); mb > 100 {
				t.Errorf("%v has %d MB of memory", args, mb)
			}
		}
	}
}

// Promise: people are shown 10,000 members of a lock, and how many more there are, and 200
// characters of a cell.
func TestTablesHaveBounds(t *testing.T) {
	q := interlock.Queue{Name: "a", Kind: "semaphore", Capacity: 20_000}
	for i := range mostMembers + 3 {
		q.Holders = append(q.Holders, interlock.Member{ID: fmt.Sprintf("%032x", i), Units: 1})
	}
	q.Holders[0].Note, q.Holders[1].Note = strings.Repeat("é", mostCell), strings.Repeat("é", mostCell+1)
	q.Waiters = q.Holders[:5]
	for _, show := range []func(v display){list{q}.show, func(v display) { showQueue(v, q) }} {
		var b bytes.Buffer
		show(display{w: &b})
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if n := len(lines); n < mostMembers || n > mostMembers+3 {
			t.Errorf("%d lines", n)
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "and 3 more") && last != "and 8 more" {
			t.Errorf("the last line is %q", last)
		}
		if n := strings.Count(b.String(), "…"); n != 1 {
			t.Errorf("%d cells are cut, not the one that is too long", n)
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > mostCell+200 {
				t.Fatalf("a line of %d characters: %.500s", n, l)
			}
		}
	}
}

// Promise: an ID is shown as short as the others let it be.
func TestShortIDs(t *testing.T) {
	q := interlock.Queue{
		Holders: []interlock.Member{{ID: "00000000a1"}, {ID: "00000000a1"}, {ID: "1234567890"}},
		Waiters: []interlock.Member{{ID: "00000000b1"}, {ID: "00000000b2"}, {ID: "00000000b"}, {ID: "x"}},
	}
	short := shortIDs(q)
	for id, want := range map[string]string{
		"00000000a1": "00000000a", "1234567890": "12345678", "00000000b1": "00000000b1", "00000000b": "00000000b", "x": "x",
	} {
		if got := short(id); got != want {
			t.Errorf("%s is shown as %s, not %s", id, got, want)
		}
	}
}
