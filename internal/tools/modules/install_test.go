package modules

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const version = "v0.1.0-test"

// A release of this tree, as users get it: from a module proxy, with no
// checkout around. They try what the README shows them.
func TestReleaseOfThisRepositoryInstalls(t *testing.T) {
	env := published(t, version)

	t.Run("command", func(t *testing.T) {
		bin := t.TempDir()
		run(t, t.TempDir(), append(env, "GOBIN="+bin), "go", "install", "github.com/interlock-go/interlock/cmd/interlock@"+version)
		name := filepath.Join(bin, "interlock")
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		if out := run(t, t.TempDir(), env, name, "version"); !strings.Contains(out, version) {
			t.Errorf("interlock version says %q, want %s in it", out, version)
		}

		dir := t.TempDir()
		for _, job := range []string{"backup.sh", "read.sh", "write.sh", "import.sh", "transfer.sh"} {
			plantFile(t, filepath.Join(dir, job), "#!/bin/sh\necho job $INTERLOCK_NAME $INTERLOCK_TOKEN\n", 0o755)
		}
		lines := readmeBlock(t, "sh", "")
		out := run(t, dir, []string{
			"PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH"),
			"INTERLOCK_URL=sqlite:locks.db",
		}, "bash", "-e", "-c", lines)
		if jobs, want := strings.Count(out, "job "), strings.Count(lines, " -- "); jobs != want {
			t.Errorf("%d jobs of %d have run:\n%s", jobs, want, out)
		}
	})

	t.Run("library", func(t *testing.T) {
		dir := t.TempDir()
		plantFile(t, filepath.Join(dir, "main.go"), readmeBlock(t, "go", "package main"), 0o644)
		run(t, dir, env, "go", "mod", "init", "example.com/consumer")
		run(t, dir, env, "go", "get", "github.com/interlock-go/interlock@"+version, "github.com/interlock-go/interlock/backend/sqlitelock@"+version)
		run(t, dir, env, "go", "mod", "tidy")
		for _, file := range []string{"go.mod", "go.sum"} {
			for _, ours := range []string{"drivertest", "porcupine", "pgregory.net/rapid", "testscript"} {
				if strings.Contains(read(t, dir, file), ours) {
					t.Errorf("who imports the library gets %s into %s, which only our tests need", ours, file)
				}
			}
		}
		if out := run(t, dir, env, "go", "run", "."); !strings.HasSuffix(out, " sold one\n") {
			t.Errorf("the program printed %q, want a line that ends with sold one", out)
		}
	})
}

// readmeBlock returns the first code of a language in the README that begins so.
func readmeBlock(t *testing.T, language, begin string) string {
	t.Helper()
	_, block, found := strings.Cut(read(t, here, "README.md"), "\n```"+language+"\n"+begin)
	block, _, closed := strings.Cut(begin+block, "\n```\n")
	if !found || !closed {
		t.Fatalf("README.md has no %s that begins with %q", language, begin)
	}
	return block + "\n"
}

func plantFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// published makes a release of a copy of this tree and returns the environment
// in which the go command finds it.
func published(t *testing.T, version string) []string {
	t.Helper()
	origin := t.TempDir()
	copyTree(t, here, origin)
	commit(t, origin)
	if said, err := ci(t, origin, "release", version); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	tagged := filepath.Join(t.TempDir(), "tree")
	must(t, origin, "worktree", "add", "--quiet", "--detach", tagged, "cmd/interlock/"+version)
	proxy := t.TempDir()
	if err := pack(tagged, version, proxy); err != nil {
		t.Fatal(err)
	}

	// The modules of others come from this machine's cache if they are there.
	// What is installed goes to a cache of its own, since this version is made
	// anew with every run. The contents of others' modules were compared with
	// go.sum when they came into the cache.
	env := strings.Fields(run(t, here, nil, "go", "env", "GOMODCACHE", "GOPROXY"))
	if len(env) != 2 {
		t.Fatalf("go env printed %q", env)
	}
	sources := []string{fileURL(proxy), fileURL(filepath.Join(env[0], "cache", "download")), env[1]}
	return []string{
		"GOPROXY=" + strings.Join(sources, ","), "GOMODCACHE=" + t.TempDir(),
		"GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=", "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath",
	}
}

func fileURL(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir
	}
	return "file://" + dir
}

// copyTree copies a checkout without what git and the tools keep in it.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		switch {
		case rel == ".git" || rel == "bin":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // .git is a file in a linked working tree
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run returns what a command prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
