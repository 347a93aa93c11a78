//go:build linux

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: serve terraform keeps states and their locks for who has the password, also when another server takes over
// from one that was killed; force-unlock is allowed by a flag alone.
func TestStatesAreKeptAndLockedWhileServersAreKilled(t *testing.T) {
	t.Parallel()
	dir, url := t.TempDir(), testURL(t, "?ttl=2s")
	secret := filepath.Join(dir, "password")
	const password = "of at least 16 characters"
	errtest.None(t, os.Mkdir(filepath.Join(dir, "states"), 0o700))
	errtest.None(t, os.WriteFile(secret, []byte(password+"\n"), 0o600))
	serve := func(flags ...string) (at string, kill func()) {
		cmd := cli(t, url, append([]string{"serve", "terraform", "--states", filepath.Join(dir, "states"), "--password-file", secret}, flags...)...)
		out, err := cmd.StdoutPipe()
		must(err)
		must(cmd.Start())
		kill = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
		t.Cleanup(kill)
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %s", err, cmd.Stderr)
		}
		return strings.TrimSpace(line), kill
	}
	does := func(at, method, path, body, password string, want int, says string) {
		t.Helper()
		r := errtest.Must(http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body)))(t)
		r.SetBasicAuth("any", password)
		a := errtest.Must(http.DefaultClient.Do(r))(t)
		defer a.Body.Close()
		if text := errtest.Must(io.ReadAll(a.Body))(t); a.StatusCode != want || !strings.Contains(string(text), says) {
			t.Errorf("%s %s: %d %s, want %d %s", method, path, a.StatusCode, text, want, says)
		}
	}
	c := errtest.Must(interlock.Open(t.Context(), url))(t)
	defer c.Close()
	at, kill := serve()
	does(at, "GET", "network", "", "of others, but long", 401, "password")
	does(at, "LOCK", "network", `{"ID":"first"}`, password, 200, "")
	does(at, "POST", "network?ID=first", `"the state"`, password, 200, "")
	kill()
	at, kill = serve()
	does(at, "LOCK", "network", `{"ID":"second"}`, password, 423, "first")
	does(at, "UNLOCK", "network", "", password, 403, "not allowed")
	does(at, "POST", "network?ID=second", `"of another"`, password, 423, "first")
	does(at, "GET", "network", "", password, 200, "the state")
	kill()
	at, _ = serve("--allow-force")
	does(at, "UNLOCK", "network", "", password, 200, "")
	busy.Until(t, "the lock that was ended by force has gone", func() bool {
		return len(errtest.Must(c.Admin().Queue(t.Context(), "terraform/network"))(t).Holders) == 0
	})
	does(at, "POST", "network?ID=first", `"too late"`, password, 409, "lost")
	does(at, "GET", "network", "", password, 200, "the state")
}

// Promise: a handler behind what says why requests were refused can bound the time of a body that comes slowly.
func TestABodyThatComesSlowlyCanBeEnded(t *testing.T) {
	t.Parallel()
	bounded := make(chan error, 1)
	server := httptest.NewServer(telling(&cobra.Command{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		errtest.None(t, http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)))
		_, err := io.ReadAll(r.Body)
		bounded <- err
	})))
	defer server.Close()
	body, slow := io.Pipe()
	defer slow.Close()
	go func() {
		if r, err := http.Post(server.URL, "", body); err == nil {
			_ = r.Body.Close()
		}
	}()
	errtest.Is(t, errtest.Received(t, "the end of the body", bounded), os.ErrDeadlineExceeded, "the body")
}
