package modules

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// here is the root of this repository.
const here = "../../.."

func TestEveryModuleOfThisRepositoryFindsItsSiblings(t *testing.T) {
	tree, err := Read(here)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := tree.Problems()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p, "(make modules mends what it can)")
	}
	dirs, err := tree.directories()
	if err != nil || !slices.Contains(dirs, "internal/tools") {
		t.Errorf("directories: %q, %v; internal/tools, where this test is, must be among them", dirs, err)
	}
}

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

// plant writes the good tree with changes; an empty text deletes a file.
func plant(t *testing.T, changes map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := maps.Clone(good)
	maps.Copy(files, changes)
	for name, text := range files {
		if text == "" {
			continue
		}
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

func TestProblemsAreNoticedAndMended(t *testing.T) {
	edit := func(name, old, new string) map[string]string {
		text := strings.Replace(good[name], old, new, 1)
		if text == good[name] {
			t.Fatalf("%s does not contain %q", name, old)
		}
		return map[string]string{name: text}
	}
	for _, c := range []struct {
		name    string
		changes map[string]string
		want    string // "": no problem
		person  bool   // who has to mend it
	}{
		{name: "good"},
		{name: "no replacement of a direct sibling", changes: edit("a/go.mod", "\texample.com/x => ..\n", ""),
			want: "a/go.mod: no right replacement of example.com/x"},
		{name: "no replacement of a transitive sibling", changes: edit("a/go.mod", "\texample.com/x/cmd/b => ../cmd/b\n", ""),
			want: "a/go.mod: no right replacement of example.com/x/cmd/b"},
		{name: "replacement of one version", changes: edit("a/go.mod", "example.com/x => ..\n", "example.com/x v0.0.0 => ..\n"),
			want: "a/go.mod: replaces only version v0.0.0 of example.com/x"},
		{name: "replacement by a version", changes: edit("a/go.mod", "example.com/x => ..\n", "example.com/x => example.com/x v1.0.0\n"),
			want: "a/go.mod: replaces example.com/x by example.com/x v1.0.0, must be .."},
		{name: "replacement by another directory", changes: edit("cmd/b/go.mod", "=> ../../a", "=> ../a"),
			want: "cmd/b/go.mod: replaces example.com/x/a by ../a, must be ../../a"},
		{name: "replacement of what does not exist", changes: edit("a/go.mod", "\texample.com/x => ..\n", "\texample.com/x => ..\n\texample.com/x/old => ../old\n"),
			want: "a/go.mod: replaces example.com/x/old, which is no sibling"},
		{name: "real version of a sibling", changes: edit("cmd/b/go.mod", "example.com/x/a v0.0.0", "example.com/x/a v1.2.3"),
			want: "cmd/b/go.mod: requires example.com/x/a v1.2.3, must be v0.0.0"},
		{name: "root module with a dependency", changes: map[string]string{"go.mod": good["go.mod"] + "\nrequire example.org/other v1.0.0\n"},
			want: "./go.mod: requires example.org/other", person: true},
		{name: "module that is not in the workspace", changes: map[string]string{"c/go.mod": "module example.com/x/c\n\ngo 1.25.0\n"},
			want: "c/go.mod: go.work does not use it", person: true},
		{name: "module path that is not its place", changes: edit("a/go.mod", "module example.com/x/a", "module example.com/x/z"),
			want: "a/go.mod: module path is example.com/x/z, must be example.com/x/a", person: true},
		{name: "module outside that needs a sibling", changes: map[string]string{"bench/go.mod": "module example.com/x/bench\n\ngo 1.25.0\n\nrequire example.com/x/a v0.0.0\n"},
			want: "bench/go.mod: no right replacement of example.com/x"},
		{name: "module outside that needs none", changes: map[string]string{"bench/go.mod": "module example.com/x/bench\n\ngo 1.25.0\n"}},
		{name: "modules in testdata do not count", changes: map[string]string{"a/testdata/go.mod": "module m\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := plant(t, c.changes)
			check(t, root, c.want)
			tree, err := Read(root)
			if err != nil {
				t.Fatal(err)
			}
			if err := tree.Replace(); err != nil {
				t.Fatal(err)
			}
			if c.person {
				check(t, root, c.want)
			} else {
				check(t, root, "")
			}
		})
	}
}

func check(t *testing.T, root, want string) {
	t.Helper()
	tree, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := tree.Problems()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case want == "" && len(problems) > 0:
		t.Errorf("problems %q, want none", problems)
	case want != "" && !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, want) }):
		t.Errorf("problems %q, want one that begins with %q", problems, want)
	}
}

func TestReplaceLeavesAloneWhatIsRight(t *testing.T) {
	root := plant(t, nil)
	tree, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Replace(); err != nil {
		t.Fatal(err)
	}
	for name, want := range good {
		if got := read(t, root, name); got != want {
			t.Errorf("%s was changed:\n%s", name, got)
		}
	}
}

func TestWorkspaceWithoutRootModuleIsRefused(t *testing.T) {
	root := plant(t, map[string]string{"go.work": "go 1.25.0\n\nuse ./a\n"})
	if _, err := Read(root); err == nil || !strings.Contains(err.Error(), "root module") {
		t.Errorf("error %v, want one about the root module", err)
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
