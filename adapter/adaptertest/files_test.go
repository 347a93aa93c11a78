package adaptertest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/statelock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// asks sends a request with the lease, if there is one, to the handler of the states alone.
func asks(t *testing.T, f *statelock.Files, lease *interlock.Lease, method, path, body string, head ...string) *http.Response {
	t.Helper()
	ctx := t.Context()
	if lease != nil {
		var free context.CancelFunc
		ctx, free = lease.Bind(ctx)
		defer free()
	}
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result()
}

func states700(t *testing.T) (*statelock.Files, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "states")
	errtest.None(t, os.Mkdir(dir, 0o700))
	return errtest.Must(statelock.NewFiles(dir))(t), dir
}

// Promise: a state is what was written last, with the sum that Terraform checks; the one before is beside it. A path
// leads nowhere else, and what has not arrived as it was sent changes nothing.
func TestFilesKeepEachStateAndTheOneBeforeIt(t *testing.T) {
	f, dir := states700(t)
	for _, c := range []struct {
		method, path, body string
		sum                string
		status             int
		answer             string
	}{
		{"GET", "/a/network", "", "", 404, "there is no such state\n"},
		{"POST", "/a/network", "1", "", 200, ""},
		{"PUT", "/a/network", "2", "yB5yjZ1ML2NvBn+JzBSGLA==", 200, ""},
		{"POST", "/a/network", "3", "yB5yjZ1ML2NvBn+JzBSGLA==", 400, "the state has not arrived as it was sent\n"},
		{"GET", "/a/network", "", "", 200, "2"},
		{"POST", "/../../out", "{}", "", 200, ""},
		{"GET", "/", "", "", 404, "the path is the name of a state, such as /network\n"},
		{"POST", "/" + strings.Repeat("n", 300), "x", "", 414, "the name of the state is too long\n"},
		{"PATCH", "/a/network", "x", "", 405, "PATCH is not known here\n"},
		{"POST", "/a/network", "2", "", 200, ""},
		{"POST", "/a/network", "not JSON", "", 400, "a state is JSON, and this is not\n"},
		{"DELETE", "/a/network", "", "", 200, ""},
		{"DELETE", "/a/network", "", "", 200, ""},
		{"GET", "/a/network", "", "", 404, "there is no such state\n"},
	} {
		r := asks(t, f, nil, c.method, c.path, c.body, "Content-MD5", c.sum)
		if text := string(errtest.Must(io.ReadAll(r.Body))(t)); r.StatusCode != c.status || text != c.answer {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, r.StatusCode, text, c.status, c.answer)
		}
	}
	if old := errtest.Must(os.ReadFile(filepath.Join(dir, "a%2Fnetwork.tfstate.backup")))(t); string(old) != "2" {
		t.Errorf("the state before is %q", old)
	}
	var names []string
	for _, e := range errtest.Must(os.ReadDir(dir))(t) {
		names = append(names, e.Name())
		if mode := errtest.Must(e.Info())(t).Mode(); runtime.GOOS != "windows" && mode.Perm() != 0o600 {
			t.Errorf("%s has the mode %v", e.Name(), mode)
		}
	}
	if got := strings.Join(names, " "); got != "..%2F..%2Fout.tfstate a%2Fnetwork.tfstate.backup" {
		t.Errorf("the folder has %s", got)
	}
}

// Promise: a write that comes after one of a later holder is refused, whichever server it comes to.
func TestFilesRefuseAWriteThatComesLate(t *testing.T) {
	f, dir := states700(t)
	c := errtest.Must(interlock.New(t.Context(), memlock.New()))(t)
	defer c.Close()
	lock := c.Mutex("network")
	first := errtest.Must(lock.Acquire(t.Context()))(t)
	if r := asks(t, f, first, "POST", "/network", `"of the first"`); r.StatusCode != 200 {
		t.Fatalf("the first holder: %s", r.Status)
	}
	late := filepath.Join(dir, "network.tfstate.fence") // as a later holder leaves it
	errtest.None(t, os.WriteFile(late, []byte("9000000000000000000\n"), 0o600))
	for _, method := range []string{"POST", "DELETE"} {
		if r := asks(t, errtest.Must(statelock.NewFiles(dir))(t), first, method, "/network", `"too late"`); r.StatusCode != 409 {
			t.Errorf("%s that comes late: %s, want 409", method, r.Status)
		}
	}
	if state := errtest.Must(os.ReadFile(filepath.Join(dir, "network.tfstate")))(t); string(state) != `"of the first"` {
		t.Errorf("the state is %q", state)
	}
	errtest.None(t, first.Release())
}

// Promise: a state that is repeated leaves the one before it where it is.
func TestFilesKeepTheBackupWhenAWriteIsRepeated(t *testing.T) {
	f, dir := states700(t)
	for _, state := range []string{"1", "2", "2"} {
		asks(t, f, nil, "POST", "/network", state)
	}
	if old := errtest.Must(os.ReadFile(filepath.Join(dir, "network.tfstate.backup")))(t); string(old) != "1" {
		t.Errorf("the state before is %q", old)
	}
}

// Promise: where the folder has gone, or another one stands in its place, no state is said to be missing, for then
// Terraform would make everything anew.
func TestFilesSayThatTheirFolderIsGone(t *testing.T) {
	f, dir := states700(t)
	asks(t, f, nil, "POST", "/network", "1")
	errtest.None(t, os.Rename(dir, dir+".away"))
	for _, again := range []bool{false, true} {
		if again {
			errtest.None(t, os.Mkdir(dir, 0o700))
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if r := asks(t, f, nil, method, "/network", "2"); r.StatusCode != 500 {
				t.Errorf("%s, with another folder there (%v): %s, want 500", method, again, r.Status)
			}
		}
	}
	if _, err := statelock.NewFiles(filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "mkdir -m 700") {
		t.Errorf("a folder that is missing: %v", err)
	}
}

// Promise: states have secrets, so a folder that others can look into is refused.
func TestFilesRefuseAFolderOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders have no mode there")
	}
	dir := t.TempDir()
	errtest.None(t, os.Chmod(dir, 0o750))
	if _, err := statelock.NewFiles(dir); err == nil || !strings.Contains(err.Error(), "the mode 700") {
		t.Errorf("a folder of mode 0750: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	errtest.None(t, os.WriteFile(file, nil, 0o600))
	if _, err := statelock.NewFiles(file); err == nil {
		t.Error("a file is taken for a folder")
	}
}
