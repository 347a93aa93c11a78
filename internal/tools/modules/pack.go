package modules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Pack writes all modules in this version to dir, in the layout of a module
// proxy, so that GOPROXY=file://dir finds them.
func (t *Tree) Pack(version, dir string) error {
	for _, m := range t.Modules {
		escaped, err := module.EscapePath(m.Path())
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := t.pack(m, module.Version{Path: m.Path(), Version: version}, filepath.Join(at, version)); err != nil {
			return fmt.Errorf("packing %s: %w", m.Path(), err)
		}
		if err := os.WriteFile(filepath.Join(at, "list"), []byte(version+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) pack(m Module, v module.Version, name string) error {
	from := filepath.Join(t.Root, filepath.FromSlash(m.Dir))
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{v.Version, time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".info", info, 0o644); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".mod", mod, 0o644); err != nil {
		return err
	}
	w, err := os.Create(name + ".zip")
	if err != nil {
		return err
	}
	defer w.Close()
	if err := zip.CreateFromDir(w, v, from); err != nil {
		return err
	}
	return w.Close()
}
