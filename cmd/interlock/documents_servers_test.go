//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// A place is where the commands of a page run. Of a command nothing is changed but addresses.
type place struct {
	addresses []string // an address of the page and the one here, in turn
	env       []string // addresses that programs look for themselves
	asks      bool     // programs ask for a password, at a terminal
	then      string   // commands that succeed only if those of the page have done what the page says
}

// typed is what is typed when a password is asked for: the one of the pages.
const typed = "secret"

// places start the servers of the pages whose commands need some.
var places = map[string]func(*testing.T) place{
	"docs/coming-from.md": func(t *testing.T) place {
		return place{env: []string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + etcdtest.Start(t).Addr}}
	},
	"docs/etcd.md": func(t *testing.T) place {
		s := etcdtest.Start(t)
		return place{
			env:  []string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + s.Addr},
			asks: true,
			then: "interlock run --url etcd://app:" + typed + "@" + s.Addr + "/locks nightly -- ./after.sh",
		}
	},
	"docs/mysql.md": func(t *testing.T) place {
		s := mysqltest.Start(t)
		s.Do("CREATE DATABASE `database`")
		s.Do("CREATE USER admin IDENTIFIED BY '" + typed + "'")
		s.Do("GRANT ALL ON *.* TO admin WITH GRANT OPTION")
		return place{
			addresses: []string{"-h host ", "-h 127.0.0.1 "},
			env:       []string{fmt.Sprint("MYSQL_TCP_PORT=", s.Port)},
			asks:      true,
			then:      "interlock run --url mysql://" + mysqltest.User + ":" + mysqltest.Password + "@" + s.Addr + "/database nightly -- ./after.sh",
		}
	},
	"docs/other-languages.md": func(t *testing.T) place {
		return place{addresses: []string{"host:2379", etcdtest.Start(t).Addr}}
	},
	"docs/postgres.md": func(t *testing.T) place {
		s := pgtest.Start(t)
		for _, sql := range []string{"CREATE DATABASE database", "CREATE ROLE admin SUPERUSER LOGIN", "CREATE ROLE app LOGIN"} {
			_, err := s.Exec(pgtest.Database, sql)
			must(err)
		}
		return place{
			addresses: []string{"@host/", "@127.0.0.1/"},
			env:       []string{fmt.Sprint("PGPORT=", s.Port)},
			then:      "interlock run --url postgres://app@" + s.Addr + "/database nightly -- ./after.sh",
		}
	},
	"docs/quorum.md": func(t *testing.T) place {
		var p place
		for _, name := range []string{"r1", "r2", "r3"} {
			p.addresses = append(p.addresses, "redis://"+name, redistest.Start(t).URL())
		}
		return p
	},
	"docs/redis.md": func(t *testing.T) place {
		s := redistest.StartSentinel(t)
		master, sentinel := s.Nodes[0], fmt.Sprintf("redis-cli -p %d ", s.Sentinels[0].Port)
		return place{
			addresses: []string{"redis-cli -p 26379 ", sentinel, "redis-cli ", fmt.Sprintf("redis-cli -p %d ", master.Port)},
			then: "interlock run --url 'redis://app:" + typed + "@" + master.Addr + "?prefix=app/' nightly -- ./after.sh\n" +
				sentinel + "--no-auth-warning --user app --pass " + typed + " PING | grep PONG",
		}
	},
}

// asked is the end of a line that waits for a password.
var asked = regexp.MustCompile(`(?i)password[^\n]*: *$`)

// withPassword runs a command at a terminal, where a person types the password whenever it is asked for.
func withPassword(cmd *exec.Cmd) ([]byte, error) {
	tty, err := pty.Start(cmd)
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	var all, unanswered bytes.Buffer
	part := make([]byte, 4096)
	for {
		n, err := tty.Read(part)
		all.Write(part[:n])
		unanswered.Write(part[:n])
		if asked.Match(unanswered.Bytes()) {
			unanswered.Reset()
			if _, err := io.WriteString(tty, typed+"\n"); err != nil {
				return all.Bytes(), err
			}
		}
		if err != nil { // the terminal is closed when its last process has ended
			return all.Bytes(), cmd.Wait()
		}
	}
}

// A block of shell in the decisions is an experiment: it runs in a shell of its own, writes all that it says by echo,
// and its last command succeeds. What it leaves running is ended.
func TestTheExperimentsOfTheDecisions(t *testing.T) {
	t.Parallel()
	said := regexp.MustCompile(`echo '([^']*)'`)
	for _, page := range slices.DeleteFunc(pages(), func(p string) bool { return !decides(p) }) {
		for _, s := range snippetsOf(readDocument(t, "../../"+page)) {
			block := s.commands()
			if s.span || block == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s:%d", page, s.line), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				file, err := os.Create(filepath.Join(dir, "written")) // a pipe would be kept open by what runs on
				must(err)
				defer file.Close()
				cmd := exec.Command("bash", "-c", block)
				cmd.Dir, cmd.Stdout, cmd.Stderr = dir, file, file
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				must(cmd.Start())
				defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
				stop := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				defer stop.Stop()
				err = cmd.Wait()
				text, _ := os.ReadFile(file.Name())
				if err != nil {
					t.Errorf("%s: %v\n%s", block, err, text)
				}
				for _, m := range said.FindAllStringSubmatch(block, -1) {
					if !strings.Contains(string(text), m[1]+"\n") {
						t.Errorf("%s\ndid not say %q:\n%s", block, m[1], text)
					}
				}
			})
		}
	}
}
