package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/internal/testserver"
)

// account is the user as whom servers run: user and group; nothing, if it is that of the test.
var account = sync.OnceValues(func() ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return []string{u.Uid, u.Gid}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
})

// program is a program of the server, to be run as its user. Debian keeps them out of the path; the newest version is
// meant.
func program(name string, args ...string) (*exec.Cmd, error) {
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(folders)
	path, err := testserver.Find("initdb", "postgresql", folders...)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	path = filepath.Join(filepath.Dir(path), name)
	if name == "pgbouncer" {
		path, err = testserver.Find(name, name, "/usr/sbin")
	}
	if err != nil {
		return nil, err
	}
	ids, err := account()
	if err != nil || ids == nil {
		return exec.Command(path, args...), err
	}
	// It would forget with whom it has to end when its user changes.
	return exec.Command("setpriv", append([]string{
		"--reuid", ids[0], "--regid", ids[1], "--clear-groups", "--pdeathsig", "KILL", "--", path,
	}, args...)...), nil
}

// own gives a file, or a folder with all in it, to the server's user.
func own(path string) error {
	ids, err := account()
	if err != nil || ids == nil {
		return err
	}
	uid, _ := strconv.Atoi(ids[0])
	gid, _ := strconv.Atoi(ids[1])
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}

// admit gives a folder to the server's user, and lets others pass through the temporary folders above it.
func admit(dir string) error {
	ids, err := account()
	if err != nil || ids == nil {
		return err
	}
	for up := filepath.Dir(dir); strings.HasPrefix(up, os.TempDir()+"/"); up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return err
		}
		if err := os.Chmod(up, info.Mode().Perm()|0o011); err != nil {
			return err
		}
	}
	return own(dir)
}

// newCluster is the data of a server that has never run.
var newCluster = testserver.Prepared(func(dir string) (data string, err error) {
	if err := admit(dir); err != nil {
		return "", err
	}
	data = filepath.Join(dir, "data")
	if err := run(dir, "", "initdb", "--no-sync", "--pgdata", data, "--username", Superuser,
		"--auth", "trust", "--locale", "C", "--encoding", "UTF8", "--wal-segsize", "1"); err != nil {
		return "", err
	}
	// The database that is there in case that template1 is spoiled is removed, since each file costs every server. In
	// this mode the server reads one statement a line, and ends at the end of its input.
	return data, run(dir, "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'\nDROP DATABASE template0\n",
		"postgres", "--single", "-D", data, "-c", "fsync=off", "-c", "exit_on_error=on", Database)
})

// run runs a program of the server in a folder.
func run(dir, input, name string, args ...string) error {
	cmd, err := program(name, args...)
	if err == nil {
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
		_, err = testserver.Output(cmd)
	}
	return err
}

// makeData writes the data folder of a server, of a standby from that of its primary.
func (s *Server) makeData() error {
	if s.of == nil {
		all, err := newCluster()
		if err == nil {
			err = os.CopyFS(s.data(), all)
		}
		if err == nil {
			err = os.Chmod(s.data(), 0o700)
		}
		if err != nil {
			return err
		}
		return admit(s.Dir)
	}
	if err := admit(s.Dir); err != nil {
		return err
	}
	return run(s.Dir, "", "pg_basebackup", "--no-sync", "--checkpoint", "fast", "--write-recovery-conf",
		"--pgdata", s.data(), "--host", s.of.Dir, "--port", strconv.Itoa(s.of.Port), "--username", Superuser)
}
