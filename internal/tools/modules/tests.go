package modules

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// LeaveTestsOut removes the tests of all modules but the root module, and what only they
// require. The go command reads the tests of whatever a program imports, and puts the
// modules that they need into its go.sum. The tests of the root module need no other one.
func (t *Tree) LeaveTestsOut() error {
	for _, m := range t.Modules[1:] {
		dir := filepath.Join(t.Root, filepath.FromSlash(m.Dir))
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasSuffix(name, "_test.go") {
				err = os.Remove(name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, m := range t.Modules[1:] {
		tidy := exec.Command("go", "mod", "tidy")
		tidy.Dir = filepath.Join(t.Root, filepath.FromSlash(m.Dir))
		tidy.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := tidy.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: go mod tidy: %w\n%s", m.Dir, err, out)
		}
		m, err := t.read(m.Dir)
		if err != nil {
			return err
		}
		t.Modules[1+i] = m
	}
	return nil
}
