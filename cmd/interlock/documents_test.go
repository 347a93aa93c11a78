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
)

const documents = "../../docs/"

// Each block of commands is run, be it fenced or indented, and each command in a table of what takes the
// place of what: all of one document in one shell that stops at the first command that fails. A block with a
// program that is not here, as otherPrograms says, is not run, nor are the experiments of decided. The blocks of
// translations are those of the README: TestTheREADMEsAgree.
func TestTheCommandsOfTheDocumentsRun(t *testing.T) {
	t.Parallel()
	n := 0
	for _, page := range pages() {
		text := readDocument(t, "../../"+page)
		var lines []string
		for _, s := range snippetsOf(text) {
			if block := s.commands(); canRun(block) && !slices.Contains(decided, page) && !translation.MatchString(page) {
				lines = append(lines, block)
			}
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
		n += strings.Count(all, "interlock ")
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			shell(t, all)
		})
	}
	if n < 70 {
		t.Errorf("%d commands were found that can be run, want 70 at least: are they written in another way?", n)
	}
}

var translation = regexp.MustCompile(`^README\..+\.md$`)

// commands are the lines of a block of shell, without what only cron reads; "" of another snippet.
func (s snippet) commands() string {
	if s.span || s.language != "" && s.language != "sh" || s.language == "" && isURLs(s.text) {
		return ""
	}
	return commandLines(s.text)
}

// canRun reports whether the programs of a block are here.
func canRun(block string) bool {
	commands, err := shellCommands(block)
	must(err)
	return len(commands) > 0 && !synopsis.MatchString(block) && !slices.ContainsFunc(commands, func(words []string) bool {
		other, is := otherPrograms[words[0]]
		return is && !other.here
	})
}

// standIns take the place of programs that are not on every machine.
var standIns = map[string]string{
	"jq":  `sed -n 's/.*"version": *"\([0-9]*\)".*/\1/p'`,
	"ssh": `shift; exec sh -c "$*"`,
}

var (
	aJob     = regexp.MustCompile(`\./[a-z-]+(\.sh)?|\b[a-z-]+\.sh\b`)
	forEver  = regexp.MustCompile(`(?m)^interlock watch .*$`)
	absolute = regexp.MustCompile(`/(srv|var/lib)/`)
)

// shell runs lines in a folder with the jobs that they name. Absolute paths are below it, a command that
// shows changes for ever is left by its reader, and a lock that is kept for a minute is kept for a second.
func shell(t *testing.T, lines string) {
	dir := t.TempDir()
	program := func(name, text string) {
		must(os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
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
	for _, folder := range []string{"srv", "var/lib/app"} {
		must(os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	const end = "trap 'jobs -p | xargs -r kill' EXIT\n"
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
	if out, err := cmd.CombinedOutput(); err != nil {
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
	text := readDocument(t, documents+"command.md")
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
			t.Errorf("command.md does not show %q any more", shown)
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

// fenced are the blocks of a language.
func fenced(text, language string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?s)\n *```"+language+"\n(.*?)\n *```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// Each page is reached from the README, and leads to files that are there.
func TestTheDocumentsLeadToEachOther(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(documents + "*.md")
	must(err)
	readme := readDocument(t, "../../README.md")
	for _, file := range files {
		if name := filepath.Base(file); !strings.Contains(readme, "docs/"+name) {
			t.Errorf("the README does not lead to docs/%s", name)
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

// The README in other languages has the same parts, the same blocks of code and the same links.
func TestTheREADMEsAgree(t *testing.T) {
	t.Parallel()
	english := readDocument(t, "../../README.md")
	translations, err := filepath.Glob("../../README.*.md")
	must(err)
	for _, file := range translations {
		text := readDocument(t, file)
		for _, language := range []string{"sh", "go"} {
			got, want := strings.Join(fenced(text, language), "\n"), strings.Join(fenced(english, language), "\n")
			if withoutComments(got) != withoutComments(want) {
				t.Errorf("%s: the %s is\n%s\nthe README has\n%s", filepath.Base(file), language, got, want)
			}
		}
		if got, want := levels(text), levels(english); got != want {
			t.Errorf("%s has headings of the levels %s, the README %s", filepath.Base(file), got, want)
		}
		for _, m := range regexp.MustCompile(`(?m)^- .*?\]\((docs/[^)]*\.md)\)`).FindAllStringSubmatch(english, -1) {
			if !strings.Contains(text, m[1]) {
				t.Errorf("%s does not lead to %s", filepath.Base(file), m[1])
			}
		}
	}
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

func readDocument(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
