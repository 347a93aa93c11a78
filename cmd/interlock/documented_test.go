//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Whatever a document shows as code, in a block, a table or a sentence: its commands, flags, URLs, options of
// URLs and variables exist.
func TestWhatTheDocumentsNameExists(t *testing.T) {
	t.Parallel()
	d := newDocumented(t)
	for _, page := range pages() {
		for _, fault := range d.faults(page, readDocument(t, "../../"+page)) {
			t.Errorf("%s:%s", page, fault)
		}
	}
}

// The examples of the help can be typed.
func TestTheExamplesOfTheHelpAreCommands(t *testing.T) {
	t.Parallel()
	d := newDocumented(t)
	column := regexp.MustCompile(`^  ([^ ].*?)(  .*)?$`) // behind the command is what it is for
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			if m := column.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
				for _, fault := range append(d.ofShell(m[1], false), d.ofText("", m[1])...) {
					t.Errorf("%s --help: %s", cmd.CommandPath(), fault)
				}
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot())
}

// What is wrong in a document is noticed, wherever it stands.
func TestWhatIsWrongInADocumentIsNoticed(t *testing.T) {
	t.Parallel()
	d := newDocumented(t)
	for _, right := range []string{
		"    interlock run -n nightly -- ./backup.sh\n",
		"1. Do it:\n\n   ```sh\n   interlock latch wait -w 60 ready\n   ```\n",
		"```\n0 3 * * *  interlock run -n nightly -- ./backup.sh\n```\n",
		"```yaml\ncommand: [\"interlock\", \"run\", \"nightly\", \"--\", \"./backup.sh\"]\n```\n",
		"Text `TestWhatIs…`, `interlock evict --force`, and `redis:`, `INTERLOCK_URL` and `?ttl=10s`.\n",
		"A line that goes on\n    interlock runs is text\n",
	} {
		if faults := d.faults("docs/command.md", right); len(faults) > 0 {
			t.Errorf("%q: %q", right, faults)
		}
	}
	for _, c := range []struct{ text, part string }{
		{"    interlock run --nonblok nightly -- ./backup.sh\n", "unknown flag: --nonblok"},
		{"Text.\n\n\tinterlock frobnicate\n", `unknown command "frobnicate"`},
		{"    interlock show nightly exports\n", `unexpected argument "exports"`},
		{"    interlock show\n", "NAME is missing"},
		{"    interlock run -w soon nightly -- ./backup.sh\n", "soon"},
		{"```sh\nid=$(interlock acquire --hlod 10m deploy)\n```\n", "unknown flag: --hlod"},
		{"- item\n\n  ```sh\n  interlock latch raise ready\n  ```\n", `unknown command "raise"`},
		{"- item\n\n      interlock ls --al\n", "unknown flag: --al"},
		{"```sh\ninterlock run nightly -- sh -c 'a=1; interlock fense x'\n```\n", `unknown command "fense"`},
		{"```sh\nssh store interlock fence --tokn 1 f -- true\n```\n", "unknown flag: --tokn"},
		{"```\n0 3 * * *  interlock run --at-last 1m nightly -- ./backup.sh\n```\n", "unknown flag: --at-last"},
		{"```ini\n[Service]\nExecStart=/usr/bin/interlock run --note-x nightly -- ./backup.sh\n```\n", "unknown flag: --note-x"},
		{"```yaml\ncommand: [\"interlock\", \"run\", \"--ttll\", \"9s\", \"a\", \"--\", \"./b\"]\n```\n", "unknown flag: --ttll"},
		{"```yaml\nrun: interlock doctr --json\n```\n", `unknown command "doctr"`},
		{"    c, err := interlock.Open(ctx, url)\n", "a command can only contain words"}, // Go is marked as such
		{"```sh\necho 'open\n```\n", "without closing quote"},
		{"| a | `interlock ls --watch` |\n", "unknown flag: --watch"},
		{"Text `evict --all`.\n", "unknown flag: --all"},
		{"Text `interlock\nvalue frob`.\n", `unknown command "frob"`},
		{"Text `--no-url-in-job`.\n", "no command has the flag --no-url-in-job"},
		{"Text `-Z 4`.\n", "no command has the flag -Z"},
		{"Text `redis://host:6379?replica=2`.\n", "unknown option replica"},
		{"Text `zk://host/a?layout=zookeeper`.\n", "option layout is not one of"},
		{"    postgres://host/database?sslmode=verify-fully\n", "sslmode"},
		{"    rediss://host?ca=ca.pem  with TLS; also certificate=\n", "certificate"},
		{"```go\nc, err := interlock.Open(ctx, \"sqlite:locks.db?perm=660\")\n```\n", "unknown option perm"},
		{"Text `redis://host:6379?ttl=soon`.\n", "ttl"},
		{"Text `quorum:?member=redis%3A%2F%2Fr1%3Fx%3D1&member=a%3Ab`.\n", "unknown option x"},
		{"Text `?replicaz=1`.\n", "unknown option replicaz"},
		{"Text `replica_time=1s`.\n", "unknown option replica_time"},
		{"Text `TestThereIsNoSuchTest`.\n", "there is no such test"},
		{"Text `go test -v -run 'TestThereIsNo|TestSuchA/Test' .`.\n", "there is no such test"},
		{"Text `INTERLOCK_URI`.\n", "no program reads the variable INTERLOCK_URI"},
		{"```sh\nINTERLOCK_TTL=3 interlock ls\n```\n", "no program reads the variable INTERLOCK_TTL"},
		{"    MYSQLTEST_SERVICE=/opt/x.sh go test ./...\n", "no program reads the variable MYSQLTEST_SERVICE"},
	} {
		if faults := d.faults("docs/command.md", c.text); !strings.Contains(strings.Join(faults, "\n"), c.part) {
			t.Errorf("%q: %q, want %q", c.text, faults, c.part)
		}
	}
}

// shown is text in blocks that is no command.
var shown = []struct{ begin, why string }{
	{shownBusy, "output, which a test compares"},
	{"interlock ─ ", "a picture of processes"},
	{"deadline = ", "a formula"},
}

// otherFlags are those of other programs that a sentence mentions.
var otherFlags = map[string]string{
	"--auto-compaction-retention": "etcd",
	"--exclude-schema":            "pg_dump",
	"--routines":                  "mysqldump",
}

// otherSettings are written as options of a URL are, and belong to other programs.
var otherSettings = map[string]string{
	"extra_lock_patterns":            "kazoo",
	"innodb_flush_log_at_trx_commit": "MySQL",
	"innodb_lock_wait_timeout":       "MySQL",
	"max_connections=100":            "PostgreSQL",
	"read_only":                      "MySQL",
	"sync_binlog":                    "MySQL",
}

// otherVariables are those of other programs, and what looks like one.
var otherVariables = map[string]string{
	"CGO_ENABLED": "go",
	"GOWORK":      "go",
}

// decides reports whether a page also names what was decided against.
func decides(page string) bool { return strings.EqualFold(filepath.Base(page), "decisions.md") }

// documented checks what documents show as code.
type documented struct {
	commands  []*cobra.Command // all of them
	variables map[string]bool  // that the command reads or sets
	sources   string           // all Go, which may read other variables
	makefile  string           // so may this
	tests     []string         // their names
	ca        string           // a file with a certificate
}

func newDocumented(t *testing.T) *documented {
	d := &documented{variables: map[string]bool{}, ca: filepath.Join(t.TempDir(), "ca.pem")}
	_, err := testserver.NewAuthority(d.ca)
	must(err)
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	var all func(cmd *cobra.Command)
	all = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		d.commands = append(d.commands, cmd)
		for _, sub := range cmd.Commands() {
			all(sub)
		}
	}
	all(root)
	for _, name := range []string{urlVariable, urlFileVariable, nameVariable, tokenVariable, exclusiveVariable, heldVariable, ticketsVariable} {
		d.variables[name] = true
	}
	d.sources, d.tests = allSources()
	d.makefile = readDocument(t, "../../Makefile")
	return d
}

// allSources are all Go of this tree, and the names of its tests.
var allSources = sync.OnceValues(func() (sources string, tests []string) {
	var b strings.Builder
	must(filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(name, ".") && name != "..":
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && name != "documented_test.go":
			text, err := os.ReadFile(path)
			b.Write(text)
			return err
		}
		return nil
	}))
	sources = b.String()
	for _, m := range regexp.MustCompile(`(?m)^func (Test\w+|Example\w*)\(`).FindAllStringSubmatch(sources, -1) {
		tests = append(tests, m[1])
	}
	return sources, tests
})

// faults are what is wrong in a document, each after the number of its line.
func (d *documented) faults(page, text string) (faults []string) {
	for _, s := range snippetsOf(text) {
		var found []string
		switch {
		case s.span:
			found = d.ofSpan(page, s.text)
		case s.language == "go":
			found = d.ofText(page, s.text)
		case s.language == "sh", s.language == "" && !isURLs(s.text):
			found = append(d.ofShell(s.text, decides(page)), d.ofText(page, s.text)...)
		case s.language == "":
			found = d.ofURLs(page, s.text)
		default:
			found = append(d.ofOther(s.text), d.ofText(page, s.text)...)
		}
		for _, f := range found {
			faults = append(faults, fmt.Sprintf("%d: %s", s.line, f))
		}
	}
	return faults
}

// synopses are made commands: what stands there beside the names of arguments is left out, and names that
// must be something else are replaced.
var synopses = strings.NewReplacer("[flags]", "", "[", "", "]", "", "…", "", " D ", " 1m ", " N ", " 1 ", " W ", " 1 ", " SHELL ", " bash ")

// ofSpan checks code in a sentence or a table. A command there may lack arguments.
func (d *documented) ofSpan(page, text string) (faults []string) {
	faults = append(d.ofText(page, text), d.ofTest(text)...)
	first, more, several := strings.Cut(text, " ")
	alternatives := decides(page)
	switch {
	case text == shownLatch: // looks like a command
	case first == "interlock" && several:
		faults = append(faults, d.ofShell(text, true)...)
	case alternatives:
	case several && d.isCommand(first) && !strings.ContainsAny(more, "(="):
		faults = append(faults, d.ofShell("interlock "+text, true)...)
	case strings.HasPrefix(text, "--"), strings.HasPrefix(text, "-") && (page == "docs/command.md" || page == "docs/job.md"):
		flag, _, _ := strings.Cut(first, "=")
		if _, other := otherFlags[flag]; !other && !d.isFlag(flag) {
			faults = append(faults, "no command has the flag "+flag)
		}
	case setting.MatchString(text):
		for pair := range strings.SplitSeq(strings.TrimPrefix(text, "?"), "&") {
			faults = append(faults, d.ofOption(page, pair)...)
		}
	}
	return faults
}

var (
	aTest  = regexp.MustCompile(`^((?:Test|Example)[A-Z]\w*)(…?)(/.*)?$`)
	ofTest = regexp.MustCompile(`\bgo test .*-run ('[^']*'|\S+)`)
)

// ofTest checks the name of a test, and the expression of go test -run that has to find some.
func (d *documented) ofTest(text string) []string {
	var name *regexp.Regexp
	if m := aTest.FindStringSubmatch(text); m != nil {
		name = regexp.MustCompile("^" + m[1] + map[bool]string{false: "$"}[m[2] != ""])
	} else if m := ofTest.FindStringSubmatch(text); m != nil {
		first, _, _ := strings.Cut(strings.Trim(m[1], "'"), "/")
		name = regexp.MustCompile(first)
	} else {
		return nil
	}
	if !slices.ContainsFunc(d.tests, name.MatchString) {
		return []string{"there is no such test: " + text}
	}
	return nil
}

func (d *documented) isCommand(word string) bool {
	return slices.ContainsFunc(d.commands[0].Commands(), func(c *cobra.Command) bool { return c.Name() == word })
}

func (d *documented) isFlag(flag string) bool {
	return slices.ContainsFunc(d.commands, func(c *cobra.Command) bool {
		find := func(set *pflag.FlagSet) bool {
			if long, is := strings.CutPrefix(flag, "--"); is {
				return set.Lookup(long) != nil
			}
			return len(flag) == 2 && set.ShorthandLookup(flag[1:]) != nil
		}
		return find(c.Flags()) || find(c.InheritedFlags())
	})
}

var (
	aTime    = regexp.MustCompile(`^(([0-9*/,-]+ +){5}|@[a-z]+ +)`) // of a line of cron
	synopsis = regexp.MustCompile(`(?m)^interlock .*…`)
)

// ofShell checks lines of shell. In a fragment arguments may be missing.
func (d *documented) ofShell(text string, fragment bool) (faults []string) {
	text = commandLines(text)
	if fragment || synopsis.MatchString(text) {
		text = strings.TrimSpace(synopses.Replace(text + " "))
	}
	commands, err := shellCommands(text)
	if err != nil {
		faults = append(faults, fmt.Sprintf("%s: %v", text, err))
	}
	for _, words := range commands {
		if words[0] != "interlock" {
			continue // it runs, if the block does
		}
		if err := parseCommand(words[1:], fragment); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", strings.Join(words, " "), err))
		}
	}
	return faults
}

// commandLines are the lines of a block that are commands.
func commandLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !isShown(line) {
			lines = append(lines, aTime.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(lines, "")
}

func isShown(line string) bool {
	for _, s := range shown {
		if strings.HasPrefix(line, s.begin) {
			return true
		}
	}
	return false
}

// parseCommand reads arguments as the command does, and runs nothing.
func parseCommand(args []string, fragment bool) error {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	err = cmd.ParseFlags(rest)
	if missing := new(pflag.ValueRequiredError); fragment && errors.As(err, &missing) {
		err = cmd.ParseFlags(append(rest, "1"))
	}
	if err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	given := cmd.Flags().Args()
	err = cmd.ValidateArgs(given)
	for more := 1; err != nil && fragment && more < 4; more++ {
		given = append(given, "argument")
		if cmd.ValidateArgs(given) == nil {
			return nil
		}
	}
	return err
}

var (
	inText   = regexp.MustCompile(`(^|[\s"'=/;|(])interlock\s+[a-z-]+.*`)
	inYAML   = regexp.MustCompile(`\[\s*(["']?)(?:/[^\s"',]*/)?interlock["']?\s*,.*\]`)
	yamlWord = regexp.MustCompile(`"[^"]*"|'[^']*'|[^\s,\[\]]+`)
)

// ofOther checks lines of another language, such as that of a unit of systemd, in which a command may stand.
func (d *documented) ofOther(text string) (faults []string) {
	for line := range strings.Lines(text) {
		switch {
		case inYAML.MatchString(line):
			var words []string
			for _, w := range yamlWord.FindAllString(inYAML.FindString(line), -1) {
				words = append(words, `"`+strings.Trim(w, `"'`)+`"`)
			}
			words[0] = "interlock"
			faults = append(faults, d.ofShell(strings.Join(words, " "), false)...)
		case inText.MatchString(line):
			line = strings.TrimSpace(inText.FindString(line))
			line = strings.Trim(line[strings.Index(line, "interlock"):], `"'`)
			faults = append(faults, d.ofShell(line, false)...)
		}
	}
	return faults
}

// variableOf matches the variables of the environment: those of the command, and those that are set.
var variableOf = regexp.MustCompile(`\b(INTERLOCK_[A-Z_]+)\b|(?:^|[\s;])([A-Z][A-Z0-9_]+)=`)

// ofText checks URLs and variables in any code.
func (d *documented) ofText(page, text string) (faults []string) {
	for _, m := range variableOf.FindAllStringSubmatch(text, -1) {
		own, set := m[1], m[2]
		_, other := otherVariables[set]
		switch {
		case own != "" && !d.variables[own]:
			faults = append(faults, "no program reads the variable "+own)
		case set != "" && !d.variables[set] && !other && !strings.Contains(d.sources, `"`+set+`"`) && !strings.Contains(d.makefile, set):
			faults = append(faults, "no program reads the variable "+set)
		}
	}
	for _, url := range urlIn.FindAllStringSubmatch(text, -1) {
		faults = append(faults, d.ofURL(url[1])...)
	}
	return faults
}

var (
	urlIn   = regexp.MustCompile(`(?:^|[\s"'=(])((?:` + strings.Join(driver.Schemes(), "|") + "):[^\\s\"'`<>|)]+)")
	setting = regexp.MustCompile(`^(\?[a-z][A-Za-z_.]*|[a-z][a-z_]+)=\S*$`)
)

// isURLs reports whether a block lists URLs.
func isURLs(text string) bool {
	return strings.HasPrefix(text, urlIn.FindString(text)) && urlIn.MatchString(text)
}

// ofURLs checks a block whose lines are a URL each and what to say of it, such as more options.
func (d *documented) ofURLs(page, text string) (faults []string) {
	for line := range strings.Lines(text) {
		url, more, _ := strings.Cut(strings.TrimSpace(line), " ")
		faults = append(faults, d.ofURL(url)...)
		for word := range strings.FieldsSeq(more) {
			if word = strings.Trim(word, ",;…"); setting.MatchString(word) {
				faults = append(faults, d.ofOption(page, strings.TrimPrefix(word, "?"))...)
			}
		}
	}
	return faults
}

// ofURL has the backend read a URL.
func (d *documented) ofURL(url string) (faults []string) {
	url = strings.TrimRight(url, ",;.")
	if scheme, rest, _ := strings.Cut(url, ":"); strings.Trim(rest, "/…") == "" && scheme != "mem" {
		return nil // only the scheme is meant
	}
	if err := d.refusal(url); err != nil {
		return []string{fmt.Sprintf("%s: %v", url, err)}
	}
	return nil
}

// nobodysOption is an option that no backend knows. A backend says that before it touches anything, together
// with all else that is wrong with the options.
const nobodysOption = "known.by.nobody"

var expected = regexp.MustCompile(`^interlock: open \S+: |unknown option ` + nobodysOption + `; \w+: knows [^;]*`)

// refusal is why a backend refuses a URL, without a connection; nil if it does not.
func (d *documented) refusal(text string) error {
	text = strings.ReplaceAll(text, "=ca.pem", "="+d.ca)
	u, err := driver.ParseURL(text)
	if err != nil {
		return err
	}
	if !slices.Contains(driver.Schemes(), u.Scheme) {
		return errors.New("no backend has this scheme")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	switch u.Scheme {
	case "postgres", "postgresql", "mysql", "mariadb", "zk", "zks": // read more behind their options, and connect to nothing without time
		c, err := interlock.Open(ctx, text)
		if err == nil {
			_ = c.Close()
		}
		if errors.Is(err, interlock.ErrInvalid) {
			return err
		}
		return nil
	case "quorum":
		for _, m := range u.Texts("member") {
			if member, err := driver.ParseURL(m); err == nil && slices.Contains(driver.Schemes(), member.Scheme) {
				if err := d.refusal(m); err != nil {
					return err
				}
			}
		}
	}
	c, err := interlock.Open(ctx, withOption(text, nobodysOption+"=1"))
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("the option %s was not refused", nobodysOption)
	}
	why := strings.Trim(expected.ReplaceAllString(err.Error(), ""), " ;")
	if why == "" {
		return nil
	}
	return errors.New(why)
}

func withOption(url, pair string) string {
	if strings.Contains(url, "?") {
		return url + "&" + pair
	}
	return url + "?" + pair
}

// urls are one of each scheme that has options of its own, by the page that says so.
var urls = []struct{ page, url string }{
	{"docs/redis.md", "redis://host"}, {"docs/redis.md", "redis://host?master=name"}, {"docs/redis.md", "rediss://host"},
	{"docs/zookeeper.md", "zk://host/path"}, {"docs/zookeeper.md", "zk://user:password@host/path"}, {"docs/zookeeper.md", "zks://host/path"},
	{"docs/etcd.md", "etcd://host/path"}, {"docs/etcd.md", "etcds://host/path"},
	{"docs/postgres.md", "postgres://user@host/database"},
	{"docs/mysql.md", "mysql://user@host/database"},
	{"docs/sqlite.md", "sqlite:locks.db"},
	{"docs/file.md", "file:locks"},
}

// ofOption checks name=value, which is an option of a URL: of the backend whose page it is, or of any.
func (d *documented) ofOption(page, pair string) []string {
	name, value, _ := strings.Cut(pair, "=")
	if otherSettings[name]+otherSettings[pair] != "" {
		return nil
	}
	if value == "" {
		pair += "1" // the name of an option without a value is not repeated in an error
	}
	own := slices.ContainsFunc(urls, func(u struct{ page, url string }) bool { return u.page == page })
	var why string
	for _, u := range urls {
		if own && u.page != page {
			continue
		}
		err := d.refusal(withOption(u.url, pair))
		if err == nil {
			return nil
		}
		if text := err.Error(); !strings.Contains(text, "unknown option") || why == "" {
			if isPlaceholder(value) && !strings.Contains(text, "unknown option") {
				return nil
			}
			why = text
		}
	}
	return []string{pair + ": " + why}
}

// isPlaceholder reports whether a value of an option stands for one of the reader.
func isPlaceholder(value string) bool {
	return value == "" || value == "n" || value == "N" || value == "name" || value == "URL"
}
