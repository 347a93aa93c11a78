//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

const documents = "../../docs/"

// Each block of commands is run, be it fenced or indented, and each command in a table of what takes the place of what:
// all of one document in one shell that stops at the first command that fails. Those of a page in places run on
// servers. Blocks of notRun are not run, and say why. The experiments of the decisions have a test of their own, and
// the blocks of translations are those of the English page: TestTheREADMEsAgree.
func TestTheCommandsOfTheDocumentsRun(t *testing.T) {
	t.Parallel()
	unused := slices.Clone(notRun)
	for _, page := range pages() {
		if decides(page) || translation.MatchString(page) {
			continue
		}
		text := readDocument(t, "../../"+page)
		var lines []string
		for _, s := range snippetsOf(text) {
			block := s.commands()
			if block == "" {
				continue
			}
			is := func(b unrun) bool { return b.page == page && strings.HasPrefix(block, b.begin) }
			if slices.ContainsFunc(notRun, is) {
				unused = slices.DeleteFunc(unused, is)
				continue
			}
			lines = append(lines, block)
		}
		for _, span := range ours(text) {
			if strings.HasPrefix(span, "interlock ") {
				lines = append(lines, span)
			}
		}
		if len(lines) == 0 {
			continue
		}
		all := strings.Join(lines, "\n")
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			var at place
			if start := places[page]; start != nil {
				at = start(t)
			}
			at.run(t, all)
		})
	}
	for _, b := range unused {
		t.Errorf("%s has no commands that begin with %q: take them out of notRun", b.page, b.begin)
	}
}

// notRun are the commands that no test runs, by their page and how they begin: blocks, and commands of other
// programs in a sentence or a table.
var notRun = []unrun{
	{"CONTRIBUTING.md", "#!/bin/sh", "starts a server of the reader"},
	{"CONTRIBUTING.md", "MYSQLTEST_SERVER=", "the same; the tests themselves run, with the server that is installed"},
	{"README.md", "go run ./cmd/interlock ui --demo", "both have tests of their own, and .ci/run runs them"},
	{"README.md", "(cd ../interlock", "TestAProgramTakesTheModulesOfACheckout runs it"},
	{"README.md", "go install ", "there is no release yet; make install installs one of this tree in this way"},
	{"bench/README.md", "cd bench", "measures for an hour"},
	{"bench/README.md", "go run . -json", "the same"},
	{"docs/adapters.md", "mkdir -m 700 /var/lib/states", "serves until it is interrupted; TestStatesAreKeptAndLockedWhileServersAreKilled runs it"},
	{"docs/choosing.md", "GOWORK=off go run . -redis", "measures for minutes"},
	{"docs/coming-from.md", "etcdctl elect e host1", "leads until it is interrupted"},
	{"docs/command.md", "interlock run [flags]", "says what may stand where"},
	{"docs/command.md", "interlock top", "draws on a terminal until a key ends it; TestTopLeavesTheTerminalAsItWas runs it there"},
	{"docs/etcd.md", "etcdctl elect a/b VALUE", "leads until it is interrupted"},
	{"docs/etcd.md", "etcdctl lock a/b", "holds until it is interrupted"},
	{"docs/track-record.md", "make lab LAB=list", "starts servers, for minutes; make unit has a short run"},
	{"docs/track-record.md", "make lab LAB='run", "the same, with redislock"},
	{"docs/ui.md", "curl -H", "asks a page that runs; the tests of package ui ask for the same"},
}

// A unrun is commands of a page.
type unrun struct{ page, begin, why string }

// translation matches a page in another language: the page, and the language.
var translation = regexp.MustCompile(`^([^.]+)\.([^.]+)\.md$`)

// commands are the lines of a block of shell, without what only cron reads, or a command of another program in a
// sentence or a table; "" of another snippet.
func (s snippet) commands() string {
	switch {
	case s.span && ofServers.MatchString(s.text):
		return s.text
	case s.span, s.language != "" && s.language != "sh", s.language == "" && isURLs(s.text):
		return ""
	}
	return commandLines(s.text)
}

// ofServers are commands with arguments.
var ofServers = regexp.MustCompile(`^(etcdctl|flock|mariadb|psql|redis-cli) \S+ \S`)

// standIns take the place of programs that are not on every machine.
var standIns = map[string]string{
	"jq":  `sed -n 's/.*"version": *"\([0-9]*\)".*/\1/p'`,
	"ssh": `shift; exec sh -c "$*"`,
}

var (
	aJob     = regexp.MustCompile(`\./[a-z-]+(\.sh)?|\b[a-z-]+\.sh\b`)
	forEver  = regexp.MustCompile(`(?m)^interlock watch .*$`)
	absolute = regexp.MustCompile(`/(srv|var/lib|var/lock)/`)
)

// run runs lines in a folder with the jobs that they name. Absolute paths are below it, a command that
// shows changes for ever is left by its reader, and a lock that is kept for a minute is kept for a second.
func (p place) run(t *testing.T, lines string) {
	dir := t.TempDir()
	program := func(name, text string) {
		must(os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	lines = strings.NewReplacer(p.addresses...).Replace(lines) + "\n" + p.then
	for _, job := range aJob.FindAllString(lines, -1) {
		program(job, "exit 0")
	}
	for name, text := range standIns {
		program(name, text)
	}
	lines = absolute.ReplaceAllString(lines, dir+"/$1/")
	lines = strings.ReplaceAll(lines, "-g locks", "-g "+strconv.Itoa(os.Getgid()))
	lines = forEver.ReplaceAllString(lines, "{ $0\n} | head -n 1 || test $$? = 141 # SIGPIPE")
	lines = strings.ReplaceAll(lines, "--at-least 1m", "--at-least 1s")
	for _, folder := range []string{"srv", "var/lib/app", "var/lock"} {
		must(os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	const end = "trap 'jobs -p | xargs -r kill || true' EXIT\n"        // one may end meanwhile
	for _, url := range []string{"sqlite:locks.db", "sqlite:old.db"} { // a value for those who read one
		set := exec.CommandContext(t.Context(), "interlock", "--url", url, "value", "set", "limit", "10")
		set.Dir = dir
		if out, err := set.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-x", "-c", end+lines)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "INTERLOCK_URL=sqlite:locks.db", "OLD=sqlite:old.db", "NEW=sqlite:new.db", "INTERLOCK_TOKEN=7")
	cmd.Env = append(cmd.Env, p.env...)
	run := cmd.CombinedOutput
	if p.asks {
		run = func() ([]byte, error) { return withPassword(cmd) }
	}
	if out, err := run(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// shownBusy and shownLatch are what a page shows of the output.
const (
	shownBusy  = "interlock: nightly is busy: held by host1:4711 (in line since 03:00:04, note backup.sh)"
	shownLatch = "latch ready: 1 left after 1m0s"
)

// What the pages show of the output is what a user sees, but for names, numbers and times.
func TestTheOutputThatTheDocumentsShow(t *testing.T) {
	t.Parallel()
	text := readDocument(t, documents+"command.md") + readDocument(t, documents+"job.md")
	dir := t.TempDir()
	job := filepath.Join(dir, "backup.sh")
	must(os.WriteFile(job, []byte("#!/bin/sh\necho runs\nread -r _ || true\n"), 0o755))
	start := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "interlock", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "INTERLOCK_URL=sqlite:locks.db")
		return cmd
	}
	holder := start("run", "nightly", "--", job)
	end, err := holder.StdinPipe()
	must(err)
	out, err := holder.StdoutPipe()
	must(err)
	must(holder.Start())
	if n, err := out.Read(make([]byte, 5)); n == 0 {
		t.Fatalf("the holder does not run: %v", err)
	}
	compare := func(args []string, own, shown string) {
		if !strings.Contains(text, shown) {
			t.Errorf("neither command.md nor job.md shows %q any more", shown)
		}
		var got string
		for range 20 { // a backend that is slow is not waited for, and the message is shorter
			out, _ := start(args...).CombinedOutput()
			got = regexp.MustCompile(own).ReplaceAllLiteralString(strings.TrimSpace(string(out)), shown)
			if got == shown {
				return
			}
		}
		t.Errorf("interlock %s writes %q, the page shows %q", strings.Join(args, " "), got, shown)
	}
	compare([]string{"run", "-n", "nightly", "--", "true"},
		`^interlock: nightly is busy: held by [^ ]+:[0-9]+ \(in line since [0-9]{2}:[0-9]{2}:[0-9]{2}, note backup\.sh\)$`, shownBusy)
	must(start("latch", "set", "ready", "1").Run())
	compare([]string{"latch", "wait", "-w", "0.1", "ready"}, `^interlock: latch ready: 1 left after 100ms$`, shownLatch)
	must(end.Close())
	if err := holder.Wait(); err != nil {
		t.Error(err)
	}
}

// ours are the texts in code in the column "here" of the tables.
func ours(text string) (spans []string) {
	column := -1
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			column = -1
			continue
		}
		cells := cellsOf(line)
		if column < 0 {
			column = len(cells)
			for i, c := range cells {
				if c == "here" {
					column = i
				}
			}
			continue
		}
		if column < len(cells) {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[column], -1) {
				spans = append(spans, m[1])
			}
		}
	}
	return spans
}

// cellsOf are the cells of a line of a table. A bar in code is escaped.
func cellsOf(line string) (cells []string) {
	line = strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, "\x00")
	for c := range strings.SplitSeq(line, "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(c), "\x00", "|"))
	}
	return cells
}

// Each page is reached from the README of its language, and leads to files that are there.
func TestTheDocumentsLeadToEachOther(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(documents + "*.md")
	must(err)
	for _, file := range files {
		name, readme := filepath.Base(file), "README.md"
		if m := translation.FindStringSubmatch(name); m != nil {
			readme = "README." + m[2] + ".md"
		}
		if !strings.Contains(readDocument(t, "../../"+readme), "](docs/"+name) {
			t.Errorf("%s does not lead to docs/%s", readme, name)
		}
	}
	pages, err := filepath.Glob("../../*.md")
	must(err)
	for _, file := range append(files, pages...) {
		text := readDocument(t, file)
		for _, m := range regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`).FindAllStringSubmatch(withoutCode(text), -1) {
			to, target := text, m[1]
			if target != "" {
				path := filepath.Join(filepath.Dir(file), target)
				info, err := os.Stat(path)
				if err != nil {
					t.Errorf("%s leads to %s: %v", filepath.Base(file), target, err)
					continue
				}
				if info.IsDir() || !strings.HasSuffix(path, ".md") {
					continue
				}
				to = readDocument(t, path)
			}
			if m[2] != "" && !hasAnchor(to, m[2][1:]) {
				t.Errorf("%s leads to %s%s, and no heading there has that name", filepath.Base(file), target, m[2])
			}
		}
	}
}

// hasAnchor reports whether a heading makes that anchor, as most who show Markdown do it.
func hasAnchor(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			title = strings.ToLower(strings.TrimSpace(title))
			title = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`).ReplaceAllString(title, "")
			if strings.ReplaceAll(title, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

// The README and pages in other languages have the parts of the English page: headings, blocks of code, code in
// sentences, the shape of the tables, and links, which lead to pages of their language where there are some.
func TestTheREADMEsAgree(t *testing.T) {
	t.Parallel()
	for _, page := range pages() {
		m := translation.FindStringSubmatch(page)
		if m == nil {
			continue
		}
		text, english := readDocument(t, "../../"+page), readDocument(t, "../../"+m[1]+".md")
		if got, want := blocksOf(text), blocksOf(english); !slices.EqualFunc(got, want, func(a, b string) bool {
			return withoutComments(a) == withoutComments(b)
		}) {
			t.Errorf("%s: the code is\n%s\nthe English page has\n%s", page, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got, want := levels(text), levels(english); got != want {
			t.Errorf("%s has headings of the levels %s, the English page %s", page, got, want)
		}
		if got, want := tablesOf(text), tablesOf(english); got != want {
			t.Errorf("%s has tables of\n%s\ncolumns, the English page\n%s", page, got, want)
		}
		for _, s := range snippetsOf(english) {
			if s.span && !strings.Contains(text, "`"+s.text+"`") {
				t.Errorf("%s does not have `%s`", page, s.text)
			}
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\.md([^)]*)\)`).FindAllStringSubmatch(english, -1) {
			to := link[1] + ".md"
			own := link[1] + "." + m[2] + ".md"
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(page), own)); err == nil {
				to = own
			}
			if to = "](" + to + link[2] + ")"; !strings.Contains(filepath.Base(link[1]), ".") && !strings.Contains(text, to) {
				t.Errorf("%s does not have the link %s", page, to)
			}
		}
	}
}

// tablesOf are the tables, a line for each, with the number of cells of each of its rows.
func tablesOf(text string) string {
	var all bytes.Buffer
	for line := range strings.Lines(withoutBlocks(text)) {
		if strings.HasPrefix(line, "|") {
			fmt.Fprint(&all, len(cellsOf(line)))
		} else if all.Len() > 0 && all.Bytes()[all.Len()-1] != '\n' {
			all.WriteByte('\n')
		}
	}
	return all.String()
}

// blocksOf are the blocks of code, each behind its language.
func blocksOf(text string) (blocks []string) {
	for _, s := range snippetsOf(text) {
		if !s.span {
			blocks = append(blocks, s.language+"\n"+s.text)
		}
	}
	return blocks
}

// withoutComments is code without what is translated.
func withoutComments(code string) string {
	return regexp.MustCompile(`(?m)[ \t]*(//|#) .*$`).ReplaceAllString(code, "")
}

// levels are the levels of the headings, in order.
func levels(text string) string {
	var all bytes.Buffer
	for _, m := range regexp.MustCompile("(?m)^(#+) ").FindAllStringSubmatch(withoutBlocks(text), -1) {
		fmt.Fprint(&all, len(m[1]))
	}
	return all.String()
}

func withoutBlocks(text string) string {
	return regexp.MustCompile("(?s)\n *```.*?\n *```").ReplaceAllString(text, "")
}

func withoutCode(text string) string {
	return regexp.MustCompile("`[^`\n]+`").ReplaceAllString(withoutBlocks(text), "")
}

// Promise: without a release, the lines of the README give its complete program the modules of a checkout.
func TestAProgramTakesTheModulesOfACheckout(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	must(err)
	dir := t.TempDir()
	lines := "go mod init example.org/program\n"
	for _, s := range snippetsOf(readDocument(t, "../../README.md")) {
		switch {
		case s.language == "go" && strings.HasPrefix(s.text, "package main"):
			must(os.WriteFile(filepath.Join(dir, "main.go"), []byte(s.text), 0o644))
		case !s.span && strings.HasPrefix(s.text, "(cd ../interlock"):
			lines += strings.ReplaceAll(s.text, "../interlock", root)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", lines+"\ngo run .")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "sold one") {
		t.Errorf("%v\n%s", err, out)
	}
}

func readDocument(t *testing.T, file string) string {
	t.Helper()
	text := errtest.Must(os.ReadFile(file))(t)
	return string(text)
}
