package mysqltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Variable is the environment variable that names the server program to be tested with,
// instead of Debian's MariaDB: the path of a mariadbd or of a mysqld, version 8.0 or
// later. It may be a script that hands its arguments over and does not fork.
const Variable = "MYSQLTEST_SERVER"

// program is a server program.
type program struct {
	path    string
	version string // what it says of itself
	maria   bool
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
	version := strings.TrimSpace(string(out))
	return program{path, version, strings.Contains(version, "MariaDB")}, nil
})

// MariaDB reports whether servers are of MariaDB, and not of MySQL: for tests of what
// only one of them has.
func MariaDB() bool {
	p, err := installed()
	return err != nil || p.maria
}

// name is of messages.
func (p program) name() string {
	if p.maria {
		return "mariadbd"
	}
	return "mysqld"
}

// settings are those that only one kind of server knows.
func (p program) settings(synced bool) []string {
	if p.maria {
		all := []string{
			line("innodb_log_file_size", logSize), line("innodb_temp_data_file_path", "ibtmp1:1M:autoextend"), line("aria_pagecache_buffer_size", "1M"),
		}
		if !synced {
			all = append(all, line("debug_no_sync"))
		}
		return all
	}
	all := []string{
		line("innodb_redo_log_capacity", logSize),
		line("mysqlx", "OFF"),                           // another port
		line("secure_file_priv", "NULL"),                // else a folder that has to be there
		line("auto_generate_certs", "OFF"),              // TLS only if it is asked for
		line("log_error_suppression_list", "MY-014089"), // that its log is small
	}
	if !synced {
		all = append(all, line("innodb_flush_method", "nosync"))
	}
	return all
}

// install makes the tables of a server that has never run, and runs the SQL of a file.
func (p program) install(dir, folder, begin string) error {
	var cmd *exec.Cmd
	if p.maria {
		path, err := find("mariadb-install-db")
		if err != nil {
			return err
		}
		cmd = exec.Command(path, append([]string{
			"--no-defaults", "--datadir=" + folder, "--skip-test-db", "--skip-name-resolve", "--auth-root-authentication-method=normal",
			"--extra-file=" + begin, "--debug-no-sync", "--innodb-log-file-size=" + logSize,
			"--tmpdir=" + dir, // where others are at work, it removes their files as it begins
		}, asRoot()...)...)
	} else {
		file := filepath.Join(dir, config)
		text := "[mysqld]\n" + line("datadir", folder) + line("tmpdir", dir) + line("init_file", begin) + line("innodb_flush_log_at_trx_commit", "0") +
			line("innodb_doublewrite", "OFF") + line("skip_log_bin") + strings.Join(p.settings(false), "")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		cmd = exec.Command(p.path, append([]string{"--defaults-file=" + file, "--initialize-insecure"}, asRoot()...)...)
	}
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out)
	}
	return nil
}

// asRoot is what a server wants to be told before it runs as root.
func asRoot() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}

// find finds a program of the server, which may be where only root looks.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("install mariadb-server (on Debian: apt-get install mariadb-server): %w", err)
}
