package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a file that names a backend may have comments, and empty lines.
func TestTheFirstLineThatIsNoComment(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n\n": "", "# none\n": "", "mem:": "mem:", "mem:\n": "mem:", " mem: \r\n": "mem:",
		"# of all machines\n\nredis://host/#fragment\nmem:\n": "redis://host/#fragment",
	} {
		if got := firstLine(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

// Promise: the default file is not made in a folder of another user, which HOME names under
// sudo, if that keeps it.
func TestTheDefaultFileIsNotInAnothersFolder(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only the superuser can give folders to others")
	}
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", home)
	backend := func() (backend, error) { return (&options{local: true}).backend(t.Context()) }
	if b, err := backend(); err != nil || !strings.Contains(b.url, home+"/.local/state/interlock/locks.db") {
		t.Fatalf("%+v, %v", b, err)
	}
	errtest.None(t, os.Lchown(home, 65534, 65534))
	for _, state := range []string{"", home, filepath.Join(home, "not", "yet")} {
		t.Setenv("XDG_STATE_HOME", state)
		if b, err := backend(); err == nil || !strings.Contains(err.Error(), home+" belongs to another user") {
			t.Errorf("XDG_STATE_HOME=%s: %+v, %v", state, b, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(home, "not")); err == nil {
		t.Errorf("%v was made", left)
	}
}

// Promise: doctor names a file with the URL that others can write, and one with a password that others can read.
func TestAURLFileThatOthersCanUseIsNamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode there")
	}
	for _, c := range []struct {
		url  string
		mode os.FileMode
		says string
	}{
		{"sqlite:x.db", 0o666, "can write"},
		{"sqlite:x.db", 0o660, "can write"},
		{"sqlite:x.db", 0o644, ""},
		{"redis://me:secret@h", 0o644, "can be read by every user"},
		{"redis://me:secret@h", 0o640, ""},
	} {
		file := filepath.Join(t.TempDir(), "url")
		errtest.None(t, os.WriteFile(file, []byte(c.url), 0o600))
		errtest.None(t, os.Chmod(file, c.mode))
		f := backend{url: c.url, file: file}.exposed(t.Context())
		said := f.Detail + f.Remedy
		if c.says == "" && said != "" || !strings.Contains(said, c.says) || strings.Contains(said, "secret") {
			t.Errorf("%s of mode %04o: %q", c.url, c.mode, said)
		}
	}
}
