package testserver

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing/fstest"
)

// ReadFolder keeps a folder in memory, such as the data of a server that has never run: nothing is left on the disk
// when the process ends. [os.CopyFS] writes it.
func ReadFolder(dir string) (fs.FS, error) {
	all := fstest.MapFS{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		f := &fstest.MapFile{Mode: d.Type()}
		if !d.IsDir() {
			f.Data, err = os.ReadFile(path)
		}
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = f
		return err
	})
	return all, err
}
