// Package modules keeps the modules of this repository together: in
// development each finds its siblings through replace directives, in a release
// through versions.
package modules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// unversioned is what modules require of their siblings, which a replace
// directive leads to, whatever its version.
const unversioned = "v0.0.0"

// outside lists the modules that may stay out of go.work, because the versions
// that they need would bend those of all others.
var outside = []string{"internal/tools", "internal/etcdtest/current", "bench", "lab", "adapter/adaptertest"}

// Tree is a checkout.
type Tree struct {
	Root    string   // the directory
	Path    string   // of the module in the root directory
	Modules []Module // those that go.work lists, the root module first
	Outside []Module // those that it does not list, but that need siblings
}

// Module is one of them.
type Module struct {
	Dir  string // relative to the root, with slashes
	File *modfile.File
}

// Path is the module's path.
func (m Module) Path() string { return m.File.Module.Mod.Path }

// Read reads go.work and the go.mod files that it leads to.
func Read(root string) (*Tree, error) {
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, err
	}
	t := &Tree{Root: root}
	for _, use := range work.Use {
		m, err := t.read(path.Clean(use.Path))
		if err != nil {
			return nil, err
		}
		t.Modules = append(t.Modules, m)
	}
	slices.SortFunc(t.Modules, func(a, b Module) int { return strings.Compare(a.Dir, b.Dir) })
	if len(t.Modules) == 0 || t.Modules[0].Dir != "." {
		return nil, errors.New("go.work does not use the root module: it needs the line \"use .\"")
	}
	t.Path = t.Modules[0].Path()
	for _, dir := range outside {
		switch m, err := t.read(dir); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case slices.ContainsFunc(m.File.Require, func(r *modfile.Require) bool { return t.sibling(r.Mod.Path) }):
			t.Outside = append(t.Outside, m)
		}
	}
	return t, nil
}

func (t *Tree) read(dir string) (Module, error) {
	name := filepath.Join(t.Root, filepath.FromSlash(dir), "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return Module{}, err
	}
	f, err := modfile.Parse(name, text, nil)
	if err != nil {
		return Module{}, err
	}
	if f.Module == nil {
		return Module{}, fmt.Errorf("%s: no module directive", name)
	}
	return Module{dir, f}, nil
}

// write stores the module's go.mod if it differs from what is there.
func (t *Tree) write(m Module) error {
	m.File.Cleanup()
	text, err := m.File.Format()
	if err != nil {
		return err
	}
	name := filepath.Join(t.Root, filepath.FromSlash(m.Dir), "go.mod")
	if old, err := os.ReadFile(name); err == nil && string(old) == string(text) {
		return nil
	}
	return os.WriteFile(name, text, 0o644)
}

// sibling reports whether a path is that of a module of this repository.
func (t *Tree) sibling(p string) bool {
	return p == t.Path || strings.HasPrefix(p, t.Path+"/")
}

// directories lists every directory with a go.mod.
func (t *Tree) directories() ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(t.Root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != t.Root && ignored(d.Name()) {
			return fs.SkipDir
		}
		if d.Name() == "go.mod" && !d.IsDir() {
			dir, err := filepath.Rel(t.Root, filepath.Dir(name))
			dirs = append(dirs, filepath.ToSlash(dir))
			return err
		}
		return nil
	})
	return dirs, err
}

// ignored reports directories that the go command does not look into.
func ignored(name string) bool {
	return name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}
