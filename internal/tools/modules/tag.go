package modules

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tag makes a release of HEAD of the git repository in root: a commit with the
// go.mod files of the release and without most tests, beside the branch, and a tag on it for every
// module. Neither the branch nor the working tree changes, and nothing is pushed.
func Tag(root, version string) (tags []string, err error) {
	if err := CheckVersion(version); err != nil {
		return nil, err
	}
	if changes, err := git(root, "status", "--porcelain"); err != nil {
		return nil, err
	} else if changes != "" {
		return nil, fmt.Errorf("the working tree has changes; commit them first:\n%s", changes)
	}
	temp, err := os.MkdirTemp("", "interlock-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	copied := filepath.Join(temp, "tree")
	if _, err := git(root, "worktree", "add", "--quiet", "--detach", copied, "HEAD"); err != nil {
		return nil, err
	}
	defer func() {
		_, e := git(root, "worktree", "remove", "--force", copied)
		err = errors.Join(err, e)
	}()
	t, err := Read(copied)
	if err != nil {
		return nil, err
	}
	tags = t.Tags(version)
	for _, tag := range tags {
		if found, err := git(root, "tag", "--list", tag); err != nil {
			return nil, err
		} else if found != "" {
			return nil, fmt.Errorf("tag %s exists already: choose another version", tag)
		}
	}
	if err := t.LeaveTestsOut(); err != nil {
		return nil, err
	}
	if err := t.Release(version); err != nil {
		return nil, err
	}
	if _, err := git(copied, "commit", "--quiet", "--all", "--message", "Release "+version); err != nil {
		return nil, err
	}
	for i, tag := range tags {
		if _, err := git(copied, "tag", "--annotate", "--message", "Release "+version, tag); err != nil {
			for _, made := range tags[:i] {
				git(copied, "tag", "--delete", made)
			}
			return nil, err
		}
	}
	return tags, nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("git %s: %w\n%s", args[0], err, text)
	}
	return text, nil
}
