//go:build linux

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// hostile is what somebody could write who is let at the backend: what steers a terminal, and
// turns text around, of each kind.
const hostile = "\x1b]0;pwned\x07\r\b\x7f\u0085\u009b2J\u202e\u2066\u200e\ufeff\u2028\U000e0041\nHOLDS"

// steering is what of a text would do something to a terminal.
var steering = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f-\x{9f}\x{ad}\x{200b}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{feff}\x{fff9}-\x{fffb}\x{e0000}-\x{e007f}]`)

// meek makes sure that a text steers nothing.
func meek(t *testing.T, what, text string) {
	t.Helper()
	found := steering.FindString(text)
	if strings.Contains(text, "\nHOLDS") {
		found = "a line of its own"
	}
	if found != "" || !utf8.ValidString(text) {
		t.Errorf("%s writes %q:\n%.2000q", what, found, text)
	}
}

// Promise: nothing that stands in a text of the backend, whichever it is, steers the terminal of
// those who look at it.
func TestNothingInTheBackendSteersATerminal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "locks.db")
	url := "sqlite:" + filepath.ToSlash(file)
	c, err := interlock.Open(t.Context(), url, interlock.TTL(time.Hour))
	errtest.None(t, err)
	defer c.Close()
	set := func(err error) {
		t.Helper()
		errtest.None(t, err)
	}
	for range 2 { // with an end of their own, after their sessions
		set(acquire(t, c.Semaphore("s", 5, interlock.Note("note"), interlock.ExpiresAfter(time.Hour))))
	}
	set(acquire(t, c.Mutex("a", interlock.Note("note"))))
	set(acquire(t, c.Election("e").Candidate("value")))
	waiter, err := interlock.Open(t.Context(), url, interlock.TTL(time.Hour))
	set(err)
	defer waiter.Close()
	waits, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = waiter.Mutex("a").Acquire(waits) }()
	busy.Until(t, "one waits", func() bool {
		q, err := c.Admin().Queue(t.Context(), "a")
		return err == nil && len(q.Waiters) == 1
	})
	_, err = interlock.NewValue[[]byte](c, "v").Set(t.Context(), []byte("value"), 0)
	set(err)
	_, err = c.Latch("l").Set(t.Context(), 2)
	set(err)

	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	set(err)
	defer db.Close()
	db.SetMaxOpenConns(1) // which has the temporary table
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.Exec(statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	columns := textColumns(t, db)
	if len(columns) < 8 {
		t.Fatalf("the texts of the file are %v", columns)
	}
	seen := ""
	look := func(what string) {
		for _, args := range [][]string{
			{"ls", "--all", "-o", "wide"}, {"ls", "--json"}, {"show", "a"}, {"show", "s"}, {"show", "--json", "a"}, {"observe", "--once", "e"},
			{"watch", "a"}, {"value", "get", "--json", "v"}, {"revoke", "a"}, {"evict", "a", "zzz"},
			{"__complete", "evict", "a", ""}, {"release", "a", "zzz"}, {"extend", "a", "", "1m"}, {"__complete", "release", "s", ""}, {"__complete", "run", ""},
		} {
			text := looksAt(t, url, args...)
			seen += text
			meek(t, fmt.Sprintf("%v, with %s,", args, what), text)
			if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "[") && !json.Valid([]byte(first)) {
				t.Errorf("%v, with %s, writes no JSON: %s", args, what, text)
			}
		}
	}
	for _, column := range columns {
		table, name := column[0], column[1]
		exec("CREATE TEMP TABLE was AS SELECT * FROM " + table)
		exec(fmt.Sprintf("UPDATE %s SET %s = CAST(? || CAST(%[2]s AS TEXT) AS %s)", table, name, column[2]), hostile)
		look(table + "." + name)
		meek(t, "doctor, with "+name+",", looksAt(t, url, "doctor"))
		exec("DELETE FROM " + table)
		exec("INSERT INTO " + table + " SELECT * FROM was")
		exec("DROP TABLE was")
	}
	for _, queue := range []string{"a", "s", "e"} {
		forge(t, db, queue, func(m *rows.Ticket) {
			m.Note, m.Session.Owner = append([]byte(hostile), m.Note...), hostile+m.Session.Owner
		})
	}
	look("owners and notes")
	text := looksAt(t, url, "evict", "a")
	if !strings.Contains(text, "evicted ·]0;pwned") {
		t.Errorf("evict says %q", text)
	}
	meek(t, "evict", text)
	for _, what := range []string{"pwned·", `\u001b]0;pwned`, `\u009b2J`, `\u202e`} {
		if !strings.Contains(seen, what) {
			t.Errorf("%s was not seen", what)
		}
	}
	for _, args := range [][]string{{"show", hostile}, {"value", "get", hostile}, {"latch", "wait", "-n", hostile}, {"ls", "--url", "sqlite:" + hostile + "/x"}} {
		meek(t, args[0], looksAt(t, url, args...))
	}
}

// Promise: neither do they on a terminal, where colours and the cursor are the command's own.
func TestATerminalGetsTheEscapesOfTheCommandAlone(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?ttl=30s&owner=x%1b]0%3Bpwned%07%e2%80%aey")
	const name = "a\u202eb"
	keeps(t, url, "--note", "\x1b]0;pwned\x07\u202e", name)
	set := cli(t, url, "value", "set", "v", "\x1b]0;pwned\x07\u202e")
	if err := set.Run(); err != nil {
		t.Fatalf("%v: %v", err, set.Stderr)
	}
	for _, args := range [][]string{{"ls"}, {"show", name}, {"value", "get", "v"}, {"run", "-w", "3", name, "--", "true"}} {
		text := escapes.ReplaceAllString(onScreen(t, 100, url, args...).ends(t), "")
		if !strings.Contains(text, "pwned") {
			t.Errorf("%v shows %q", args, text)
		}
		meek(t, fmt.Sprint(args), text)
	}
}

// Promise: neither does a server's answer.
func TestNoAnswerOfAServerSteersATerminal(t *testing.T) {
	t.Parallel()
	addr := testserver.Answer(t, func(c net.Conn) {
		for b := make([]byte, 4096); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			for range strings.Count("\r\n"+string(b[:n]), "\r\n*") { // commands
				fmt.Fprintf(c, "-ERR %s\r\n", strings.NewReplacer("\r", "", "\n", "").Replace(hostile))
			}
		}
	})
	for _, args := range [][]string{{"ls"}, {"run", "-v", "a", "--", "true"}, {"doctor"}, {"doctor", "--json"}} {
		text := looksAt(t, "redis://"+addr+"?timeout=1s", args...)
		if !strings.Contains(text, "pwned") {
			t.Errorf("%v says %q", args, text)
		}
		meek(t, args[0], text)
	}
}

func acquire(t *testing.T, l *interlock.Lock) error {
	_, err := l.Acquire(t.Context())
	return err
}

// looksAt is what a command writes that is given half a second, if it does not end by itself.
func looksAt(t *testing.T, url string, args ...string) string {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(people{&out})
	root.SetArgs(append([]string{"--url", url}, args...))
	if args[0] == "__complete" {
		root.SetArgs(append([]string{"__complete", "--url", url}, args[1:]...))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	if args[0] == "watch" {
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	}
	defer cancel()
	exitCode(root, root.ExecuteContext(ctx))
	return out.String()
}

// forge changes the tickets in the row of a queue.
func forge(t *testing.T, db *sql.DB, queue string, change func(*rows.Ticket)) {
	t.Helper()
	var data string
	errtest.None(t, db.QueryRow("SELECT data FROM queue WHERE name = ?", queue).Scan(&data))
	var q rows.Queue
	var boot uint64
	in, out := rows.Codec{In: data, Reads: true}, rows.Codec{}
	for _, c := range []*rows.Codec{&in, &out} {
		q.Fields(c, func() { rows.Number(c, &boot); rows.Number(c, &q.Behind) })
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		for _, m := range q.Tickets {
			if c.Reads {
				change(m)
			}
		}
	}
	errtest.Must(db.Exec("UPDATE queue SET data = ? WHERE name = ?", out.Out, queue))(t)
}

// textColumns are the columns of a SQLite file that have texts, each with its table and type. Those
// whose change ends all sessions come last.
func textColumns(t *testing.T, db *sql.DB) (all [][3]string) {
	t.Helper()
	rows, err := db.Query(`SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND c.type IN ('TEXT', 'BLOB') ORDER BY t.name, c.name`)
	errtest.None(t, err)
	defer rows.Close()
	for rows.Next() {
		var c [3]string
		errtest.None(t, rows.Scan(&c[0], &c[1], &c[2]))
		all = append(all, c)
	}
	errtest.None(t, rows.Err())
	return all
}
