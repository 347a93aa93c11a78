package pgtest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
