package modules

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// here is the root of this repository.
const here = "../../.."

// good is a small tree without problems.
var good = map[string]string{
	"go.work": "go 1.25.0\n\nuse (\n\t.\n\t./a\n\t./cmd/b\n)\n",
	"go.mod":  "module example.com/x\n\ngo 1.25.0\n",
	"a/go.mod": `module example.com/x/a

go 1.25.0

replace (
	example.com/x => ..
	example.com/x/cmd/b => ../cmd/b
)

require example.com/x v0.0.0

replace example.org/other => ../../other
`,
	"cmd/b/go.mod": `module example.com/x/cmd/b

go 1.25.0

replace (
	example.com/x => ../..
	example.com/x/a => ../../a
)

require (
	example.com/x v0.0.0
	example.com/x/a v0.0.0
)
`,
	"cmd/b/main.go":         "package main\n\nfunc main() {}\n",
	"internal/tools/go.mod": "module example.com/x/internal/tools\n\ngo 1.26.0\n",
}

// plant writes the good tree with changes.
func plant(t *testing.T, changes map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := maps.Clone(good)
	maps.Copy(files, changes)
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// ci runs a script of .ci in a tree, and returns what it says.
func ci(t *testing.T, root, script string, args ...string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(here, ".ci", script))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestEveryModuleOfThisRepositoryFindsItsSiblings(t *testing.T) {
	if said, err := ci(t, here, "modules", "--check"); err != nil {
		t.Errorf("%v (make modules mends what it can)\n%s", err, said)
	}
}

// Promise: make modules mends what can be mended, and says what a person has to decide.
func TestProblemsAreNoticedAndMended(t *testing.T) {
	edit := func(name, old, new string) map[string]string {
		text := strings.Replace(good[name], old, new, 1)
		if text == good[name] {
			t.Fatalf("%s does not contain %q", name, old)
		}
		return map[string]string{name: text}
	}
	for name, c := range map[string]struct {
		changes map[string]string
		want    string // "": no problem
		person  bool   // who has to mend it
	}{
		"good":                        {},
		"no replacement of a sibling": {changes: edit("a/go.mod", "\texample.com/x/cmd/b => ../cmd/b\n", ""), want: "a/go.mod"},
		"replacement of one version":  {changes: edit("a/go.mod", "x => ..\n", "x v0.0.0 => ..\n"), want: "a/go.mod"},
		"replacement by a version":    {changes: edit("a/go.mod", "x => ..\n", "x => example.com/x v1.0.0\n"), want: "a/go.mod"},
		"another directory":           {changes: edit("cmd/b/go.mod", "=> ../../a", "=> ../a"), want: "cmd/b/go.mod"},
		"what does not exist":         {changes: edit("a/go.mod", "x => ..\n", "x => ..\n\texample.com/x/old => ../old\n"), want: "a/go.mod"},
		"real version of a sibling":   {changes: edit("cmd/b/go.mod", "x/a v0.0.0", "x/a v1.2.3"), want: "cmd/b/go.mod"},
		"module outside that needs a sibling": {
			changes: map[string]string{"bench/go.mod": "module example.com/x/bench\n\ngo 1.25.0\n\nrequire example.com/x/a v0.0.0\n"},
			want:    "bench/go.mod"},
		"module outside that needs none": {changes: map[string]string{"bench/go.mod": "module example.com/x/bench\n\ngo 1.25.0\n"}},
		"modules in testdata":            {changes: map[string]string{"a/testdata/go.mod": "module m\n"}},
		"module that is not in the workspace": {
			changes: map[string]string{"c/go.mod": "module example.com/x/c\n\ngo 1.25.0\n"},
			want:    "c/go.mod: go.work does not use it", person: true},
		"module path that is not its place": {
			changes: edit("a/go.mod", "module example.com/x/a", "module example.com/x/z"),
			want:    "a/go.mod: the path of the module must be example.com/x/a", person: true},
		"workspace without the root module": {
			changes: map[string]string{"go.work": "go 1.25.0\n\nuse (\n\t./a\n\t./cmd/b\n)\n"},
			want:    "root module", person: true},
	} {
		t.Run(name, func(t *testing.T) {
			root := plant(t, c.changes)
			before := read(t, root, "a/go.mod") + read(t, root, "cmd/b/go.mod")
			check := func(want string) {
				t.Helper()
				said, err := ci(t, root, "modules", "--check")
				if (err == nil) != (want == "") || !strings.Contains(said, want) {
					t.Errorf("%v, want %q:\n%s", err, want, said)
				}
			}
			check(c.want)
			if now := read(t, root, "a/go.mod") + read(t, root, "cmd/b/go.mod"); now != before {
				t.Error("the check has changed them")
			}
			if said, err := ci(t, root, "modules"); (err == nil) == c.person {
				t.Errorf("%v\n%s", err, said)
			}
			if c.person {
				check(c.want)
			} else {
				check("")
			}
		})
	}
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
