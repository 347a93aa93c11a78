package modules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// pack writes all modules of the tree in this version to dir, in the layout of a module proxy, so that
// GOPROXY=file://dir finds them.
func pack(tree, version, dir string) error {
	work, err := os.ReadFile(filepath.Join(tree, "go.work"))
	if err != nil {
		return err
	}
	parsed, err := modfile.ParseWork("go.work", work, nil)
	if err != nil {
		return err
	}
	for _, use := range parsed.Use {
		from := filepath.Join(tree, filepath.FromSlash(use.Path))
		mod, err := os.ReadFile(filepath.Join(from, "go.mod"))
		if err != nil {
			return err
		}
		path := modfile.ModulePath(mod)
		escaped, err := module.EscapePath(path)
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := packModule(from, mod, module.Version{Path: path, Version: version}, filepath.Join(at, version)); err != nil {
			return fmt.Errorf("packing %s: %w", path, err)
		}
		if err := os.WriteFile(filepath.Join(at, "list"), []byte(version+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func packModule(from string, mod []byte, v module.Version, name string) error {
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
