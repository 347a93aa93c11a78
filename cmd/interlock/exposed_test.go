package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

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
		var said strings.Builder
		for _, f := range (backend{url: c.url, file: file}).exposed() {
			said.WriteString(f.Detail + f.Remedy)
		}
		if c.says == "" && said.Len() > 0 || !strings.Contains(said.String(), c.says) || strings.Contains(said.String(), "secret") {
			t.Errorf("%s of mode %04o: %q", c.url, c.mode, said.String())
		}
	}
}
