package modules

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Problems says what keeps the modules from finding their siblings, with and
// without the workspace. Replace mends all but what a person has to decide.
func (t *Tree) Problems() ([]string, error) {
	dirs, err := t.directories()
	if err != nil {
		return nil, err
	}
	var problems []string
	used := map[string]bool{}
	for _, m := range t.Modules {
		used[m.Dir] = true
		problems = append(problems, t.problems(m)...)
	}
	for _, m := range t.Outside {
		problems = append(problems, t.problems(m)...)
	}
	for _, dir := range dirs {
		if slices.Contains(outside, dir) || used[dir] {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s/go.mod: go.work does not use it: run go work use ./%s", dir, dir))
	}
	return problems, nil
}

func (t *Tree) problems(m Module) []string {
	var problems []string
	say := func(format string, args ...any) {
		problems = append(problems, m.Dir+"/go.mod: "+fmt.Sprintf(format, args...))
	}
	if want := t.pathOf(m.Dir); m.Path() != want {
		say("module path is %s, must be %s", m.Path(), want)
	}
	for _, r := range m.File.Require {
		if m.Dir == "." {
			say("requires %s; the root module does with the standard library", r.Mod.Path)
		}
		if t.sibling(r.Mod.Path) && r.Mod.Version != unversioned {
			say("requires %s %s, must be %s", r.Mod.Path, r.Mod.Version, unversioned)
		}
	}
	want := t.replaces(m)
	for _, r := range m.File.Replace {
		target, known := want[r.Old.Path]
		switch {
		case !t.sibling(r.Old.Path):
			continue
		case r.Old.Version != "":
			say("replaces only version %s of %s", r.Old.Version, r.Old.Path)
		case !known:
			say("replaces %s, which is no sibling", r.Old.Path)
		case r.New.Path != target || r.New.Version != "":
			say("replaces %s by %s, must be %s", r.Old.Path, strings.TrimSpace(r.New.Path+" "+r.New.Version), target)
		default:
			delete(want, r.Old.Path)
		}
	}
	for _, o := range t.Modules {
		if _, missing := want[o.Path()]; missing {
			say("no right replacement of %s", o.Path())
		}
	}
	return problems
}

// Replace writes into every go.mod the replace directives for its siblings, and
// requires these without a real version.
func (t *Tree) Replace() error {
	for _, m := range slices.Concat(t.Modules, t.Outside) {
		if len(t.problems(m)) == 0 {
			continue
		}
		for _, r := range slices.Clone(m.File.Require) {
			if t.sibling(r.Mod.Path) {
				if err := m.File.AddRequire(r.Mod.Path, unversioned); err != nil {
					return err
				}
			}
		}
		if err := t.dropReplaces(m); err != nil {
			return err
		}
		replaces := t.replaces(m)
		for _, p := range slices.Sorted(maps.Keys(replaces)) {
			if err := m.File.AddReplace(p, "", replaces[p], ""); err != nil {
				return err
			}
		}
		m.File.SortBlocks()
		if err := t.write(m); err != nil {
			return err
		}
	}
	return nil
}

// replaces maps the path of each sibling to its place as seen from m. The root
// module has no dependencies, so it needs none.
func (t *Tree) replaces(m Module) map[string]string {
	places := map[string]string{}
	if m.Dir == "." {
		return places
	}
	for _, o := range t.Modules {
		if o.Dir == m.Dir {
			continue
		}
		place, err := filepath.Rel(filepath.FromSlash(m.Dir), filepath.FromSlash(o.Dir))
		if err != nil {
			panic(err) // both are relative
		}
		place = filepath.ToSlash(place)
		if !strings.HasPrefix(place, ".") {
			place = "./" + place
		}
		places[o.Path()] = place
	}
	return places
}

// dropReplaces removes the replace directives for siblings.
func (t *Tree) dropReplaces(m Module) error {
	for _, r := range slices.Clone(m.File.Replace) {
		if t.sibling(r.Old.Path) {
			if err := m.File.DropReplace(r.Old.Path, r.Old.Version); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tree) pathOf(dir string) string {
	if dir == "." {
		return t.Path
	}
	return t.Path + "/" + dir
}
