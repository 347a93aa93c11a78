//go:build linux

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock/internal/busy"
)

// Promise: the workers of ui --demo end with the command, however it ends, and one that is stopped too. A command that
// is asked to end removes its folder.
func TestTheDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			cmd := cli(t, "sqlite:/not/this/one", "ui", "--demo")
			cmd.Env = append(cmd.Env, "TMPDIR="+temp)
			out, err := cmd.StdoutPipe()
			must(err)
			must(cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatalf("%v: %s", err, cmd.Stderr)
			}
			at, err := url.Parse(strings.TrimSpace(line))
			must(err)
			if at.Path != "/demo" {
				t.Errorf("it opens %s, want /demo", at.Path)
			}
			ask := func(method, path, form string) string {
				r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.Host+path, strings.NewReader(form))
				must(err)
				r.Header.Set("Authorization", "Bearer "+at.Query().Get("token"))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				answer, err := http.DefaultClient.Do(r)
				must(err)
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				must(err)
				return string(text)
			}
			var pids [][]string
			busy.Until(t, "four workers, and one holds", func() bool {
				page := ask("GET", "/demo", "")
				pids = regexp.MustCompile(`process (\d+)`).FindAllStringSubmatch(page, -1)
				return len(pids) == 4 && strings.Contains(page, ">holds")
			})
			ask("POST", "/demo/strike", "do=stop")
			busy.Until(t, "one is stopped", func() bool { return strings.Contains(ask("GET", "/demo", ""), ">stopped<") })
			must(cmd.Process.Signal(signal))
			_ = cmd.Wait()
			if left, _ := os.ReadDir(temp); signal == syscall.SIGTERM && len(left) > 0 {
				t.Errorf("%s is left: %s", left[0].Name(), cmd.Stderr)
			}
			for _, pid := range pids {
				busy.Until(t, "worker "+pid[1]+" is gone", func() bool {
					stat, err := os.ReadFile("/proc/" + pid[1] + "/stat")
					return err != nil || strings.Contains(string(stat), ") Z ")
				})
			}
		})
	}
}
