package modules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersionsThatCannotBeReleased(t *testing.T) {
	for version, why := range map[string]string{
		"v0.1.0":                             "",
		"v1.2.3":                             "",
		"v1.2.3-rc.1":                        "",
		"":                                   "must have the form",
		"1.2.3":                              "must have the form",
		"v1.2":                               "must have the form",
		"v1.2.3+more":                        "must have the form",
		"v2.0.0":                             "end in /v2",
		"v0.0.0-20200101000000-0123456789ab": "untagged",
	} {
		said, err := ci(t, t.TempDir(), "release", version)
		if refused := strings.HasPrefix(said, "release: version "); err == nil || refused != (why != "") || !strings.Contains(said, why) {
			t.Errorf("%q: %v, want %q:\n%s", version, err, why, said)
		}
	}
}

// commit makes a git repository of a directory.
func commit(t *testing.T, root string) {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "test", "GIT_AUTHOR_EMAIL": "test@example.com",
		"GIT_COMMITTER_NAME": "test", "GIT_COMMITTER_EMAIL": "test@example.com",
	} {
		t.Setenv(name, value)
	}
	must(t, root, "init", "--quiet")
	must(t, root, "add", "--all")
	must(t, root, "commit", "--quiet", "--message", "all")
}

func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return strings.TrimSpace(run(t, dir, nil, "git", args...))
}

func TestReleaseIsBesideTheBranch(t *testing.T) {
	root := plant(t, map[string]string{
		"x.go": "package x\n", "x_test.go": "package x\n",
		"a/a.go": "package a\n\nimport _ \"example.com/x\"\n", "a/a_test.go": "package a\n\nimport _ \"example.com/x/cmd/b/c\"\n",
		"cmd/b/main.go": "package main\n\nimport _ \"example.com/x/a\"\n\nfunc main() {}\n", "cmd/b/c/c.go": "package c\n",
	})
	commit(t, root)
	before := must(t, root, "rev-parse", "HEAD")
	said, err := ci(t, root, "release", "v0.1.0")
	if err != nil || !strings.HasSuffix(said, "git push --atomic origin v0.1.0 a/v0.1.0 cmd/b/v0.1.0\n") {
		t.Fatalf("%v\n%s", err, said)
	}
	if after := must(t, root, "rev-parse", "HEAD"); after != before {
		t.Error("the branch was moved")
	}
	if changes := must(t, root, "status", "--porcelain"); changes != "" {
		t.Errorf("the working tree was changed:\n%s", changes)
	}
	if trees := must(t, root, "worktree", "list", "--porcelain"); strings.Count(trees, "worktree ") != 1 {
		t.Errorf("a working tree was left behind:\n%s", trees)
	}
	for tag, want := range map[string]string{
		"a/v0.1.0:a/go.mod":         "require example.com/x v0.1.0\n",
		"cmd/b/v0.1.0:cmd/b/go.mod": "example.com/x/a v0.1.0\n",
	} {
		if text := must(t, root, "show", tag) + "\n"; !strings.Contains(text, want) || strings.Contains(text, "v0.0.0") {
			t.Errorf("%s lacks %q or still has v0.0.0:\n%s", tag, want, text)
		}
	}
	if files := must(t, root, "ls-tree", "-r", "--name-only", "v0.1.0"); !strings.Contains(files, "x_test.go") || strings.Contains(files, "a/a_test.go") {
		t.Errorf("of the tests only those of the root module must be released:\n%s", files)
	}
	if text := must(t, root, "show", "a/v0.1.0:a/go.mod"); strings.Contains(text, "require example.com/x/cmd/b") {
		t.Errorf("the release requires what only a test needs:\n%s", text)
	}
	command := must(t, root, "show", "cmd/b/v0.1.0:cmd/b/go.mod")
	if strings.Contains(command, "example.com/x/a =>") || strings.Contains(command, "example.com/x =>") {
		t.Errorf("the command still replaces its siblings:\n%s", command)
	}
}

func TestReleaseIsRefused(t *testing.T) {
	t.Run("with changes that are not committed", func(t *testing.T) {
		root := plant(t, nil)
		commit(t, root)
		if err := os.WriteFile(filepath.Join(root, "new.go"), []byte("package x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, root, "new.go")
	})
	t.Run("with a tag that exists", func(t *testing.T) {
		root := plant(t, nil)
		commit(t, root)
		must(t, root, "tag", "cmd/b/v0.1.0")
		refused(t, root, "cmd/b/v0.1.0 exists")
		if tags := must(t, root, "tag", "--list"); tags != "cmd/b/v0.1.0" {
			t.Errorf("tags were left behind: %s", tags)
		}
	})
}

func TestReleaseOfACommandThatNeedsAReplacementIsRefused(t *testing.T) {
	root := plant(t, map[string]string{"cmd/b/go.mod": good["cmd/b/go.mod"] + "\nreplace example.org/other => example.org/fork v1.0.0\n"})
	commit(t, root)
	refused(t, root, "example.org/other")
	if tags := must(t, root, "tag", "--list"); tags != "" {
		t.Errorf("tags were left behind: %s", tags)
	}
}

func refused(t *testing.T, root, why string) {
	t.Helper()
	if said, err := ci(t, root, "release", "v0.1.0"); err == nil || !strings.Contains(said, why) {
		t.Errorf("%v, want %q:\n%s", err, why, said)
	}
	if trees := must(t, root, "worktree", "list", "--porcelain"); strings.Count(trees, "worktree ") != 1 {
		t.Errorf("a working tree was left behind:\n%s", trees)
	}
}
