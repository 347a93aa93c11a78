package mysqltest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Variable is the environment variable that names the server program to be tested with,
// instead of Debian's MariaDB: the path of a mariadbd or of a mysqld, version 8.0 or
// later. It may be a script that hands its arguments over and does not fork.
const Variable = "MYSQLTEST_SERVER"

// program is a server program.
type program struct {
	path  string
	maria bool
}

// installed is the program of all servers.
var installed = sync.OnceValues(func() (program, error) {
	path := os.Getenv(Variable)
	if path == "" {
		var err error
		if path, err = find("mariadbd"); err != nil {
			return program{}, err
		}
	}
	out, err := exec.Command(path, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return program{}, fmt.Errorf("%s --version: %w\n%s", path, err, out)
	}
	return program{path, strings.Contains(string(out), "MariaDB")}, nil
})

// find finds a program of the server, which may be where only root looks.
func find(name string) (string, error) {
	return testserver.Find(name, "mariadb-server", "/usr/sbin", "/usr/local/sbin", "/usr/libexec")
}

// MariaDB reports whether servers are of MariaDB, and not of MySQL: for tests of what
// only one of them has.
func MariaDB() bool {
	p, err := installed()
	return err != nil || p.maria
}

// logSize is the size of the log that the server starts with, and goes on with.
const logSize = "8M"

// settings are those that only one kind of server knows.
func (p program) settings(synced bool) (all []string) {
	if p.maria {
		all = []string{
			line("innodb_log_file_size", logSize), line("innodb_temp_data_file_path", "ibtmp1:1M:autoextend"),
			line("aria_pagecache_buffer_size", "1M"), line("debug_no_sync"),
		}
	} else {
		all = []string{
			line("innodb_redo_log_capacity", logSize),
			line("mysqlx", "OFF"),                           // another port
			line("secure_file_priv", "NULL"),                // else a folder that has to be there
			line("auto_generate_certs", "OFF"),              // TLS only if it is asked for
			line("log_error_suppression_list", "MY-014089"), // that its log is small
			line("innodb_flush_method", "nosync"),
		}
	}
	if synced {
		all = all[:len(all)-1]
	}
	return all
}

// first is the SQL that makes the database and the user. The server that reads it
// looks at rights only when told so.
const first = `FLUSH PRIVILEGES;
CREATE DATABASE ` + Database + ` CHARACTER SET utf8mb4;
CREATE USER ` + User + `@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL ON ` + Database + `.* TO ` + User + `@'%';
`

// newTables are the data of a server that has never run.
var newTables = sync.OnceValues(func() (fs.FS, error) {
	dir, err := os.MkdirTemp("", "mysqltest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p, err := installed()
	if err != nil {
		return nil, err
	}
	folder, begin, file := filepath.Join(dir, data), filepath.Join(dir, "begin.sql"), filepath.Join(dir, config)
	text := "[mysqld]\n" + line("datadir", folder) + line("tmpdir", dir) + line("init_file", begin) +
		line("innodb_flush_log_at_trx_commit", "0") + line("innodb_doublewrite", "OFF") + line("skip_log_bin") +
		strings.Join(p.settings(false), "")
	if err := os.WriteFile(begin, []byte(first), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	path, args := p.path, []string{"--defaults-file=" + file, "--initialize-insecure"}
	if p.maria {
		if path, err = find("mariadb-install-db"); err != nil {
			return nil, err
		}
		args = []string{
			"--no-defaults", "--datadir=" + folder, "--skip-test-db", "--skip-name-resolve",
			"--auth-root-authentication-method=normal", "--extra-file=" + begin, "--debug-no-sync",
			"--innodb-log-file-size=" + logSize,
			"--tmpdir=" + dir, // where others are at work, it removes their files as it begins
		}
	}
	cmd := exec.Command(path, append(args, asRoot()...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd.Path, err, out)
	}
	// An ID, and views of other tables, for people.
	_ = os.Remove(filepath.Join(folder, "auto.cnf"))
	if p.maria {
		_ = os.RemoveAll(filepath.Join(folder, "sys"))
	}
	return testserver.ReadFolder(folder)
})

// asRoot is what a server wants to be told before it runs as root.
func asRoot() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}
