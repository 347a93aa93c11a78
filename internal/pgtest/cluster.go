package pgtest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// entry is a file, or a folder, of a data folder.
type entry struct {
	path string // in that folder
	dir  bool
	text []byte
}

// newCluster is a data folder that no server has used yet. It is made once and kept in
// memory, so that nothing is left on the disk when the process ends.
var newCluster = sync.OnceValues(func() ([]entry, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := user.admit(dir); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(filepath.Join(bin, "initdb"), "--no-sync", "--pgdata", data, "--username", Superuser,
		"--auth", "trust", "--locale", "C", "--encoding", "UTF8", "--wal-segsize", "1")
	cmd.Dir = dir
	user.use(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := trim(bin, data, user); err != nil {
		return nil, err
	}
	var all []entry
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		e := entry{dir: d.IsDir()}
		if e.path, err = filepath.Rel(data, path); err == nil && !e.dir {
			e.text, err = os.ReadFile(path)
		}
		all = append(all, e) // a folder comes before what is in it
		return err
	})
	return all, err
})

// trim removes what no test needs, since each file costs every server: the database that is
// there in case that template1 is spoiled.
func trim(bin, data string, user account) error {
	// In this mode the server reads one statement a line, and ends at the end of its input.
	cmd := exec.Command(filepath.Join(bin, "postgres"), "--single", "-D", data, "-c", "fsync=off", "-c", "exit_on_error=on", Database)
	cmd.Dir = filepath.Dir(data)
	cmd.Stdin = strings.NewReader("UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'\nDROP DATABASE template0\n")
	user.use(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("trim a data folder: %w\n%s", err, out)
	}
	return nil
}

// makeData writes the data folder of a server.
func (s *Server) makeData() error {
	all, err := newCluster()
	if err != nil {
		return err
	}
	for _, e := range all {
		path := filepath.Join(s.data(), e.path)
		if e.dir {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, e.text, 0o600)
		}
		if err == nil {
			err = s.user.own(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
