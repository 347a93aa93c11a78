package mysqltest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// logSize is the size of the log that the server starts with, and goes on with.
const logSize = "8M"

// files are those of a data folder, by their paths in it.
type files map[string][]byte

// newTables are those of a server that has never run. They are kept in memory, so
// that nothing is left on the disk when the process ends.
var newTables = sync.OnceValues(func() (files, error) {
	dir, err := os.MkdirTemp("", "mysqltest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	kind, err := installed()
	if err != nil {
		return nil, err
	}
	begin := filepath.Join(dir, "begin.sql")
	if err := os.WriteFile(begin, []byte(first), 0o600); err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, data)
	if err := kind.install(dir, folder, begin); err != nil {
		return nil, err
	}
	return read(kind, folder)
})

// first is the SQL that makes the database and the user. The server that reads it
// looks at rights only when told so.
const first = `FLUSH PRIVILEGES;
CREATE DATABASE ` + Database + ` CHARACTER SET utf8mb4;
CREATE USER ` + User + `@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL ON ` + Database + `.* TO ` + User + `@'%';
`

func read(kind program, folder string) (files, error) {
	all := files{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "sys" && kind.maria { // views of other tables, for people
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, "-cert.pem") || d.Name() == "ca.pem" || d.Name() == "auto.cnf" { // TLS that was not asked for, and an ID
			return nil
		}
		name, err := filepath.Rel(folder, path)
		if err == nil {
			all[name], err = os.ReadFile(path)
		}
		return err
	})
	return all, err
}

// copyTables makes a data folder.
func copyTables(folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil // another port is tried
	}
	all, err := newTables()
	if err != nil {
		return err
	}
	for name, text := range all {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
