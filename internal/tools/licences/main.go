// Command dist builds the interlock command as it is released: for each platform, twice, in
// different folders, and both must be the same. Beside the binaries it writes for each a list of its
// modules (SBOM), the licences of all of them, the manual page, and checksums. What is built is HEAD.
//
//	dist VERSION FOLDER GOOS/GOARCH…   builds
//	dist -table GOOS/GOARCH…           writes THIRD_PARTY.md
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

var root = "../.." // from the folder of the tools

func main() {
	args := os.Args[1:]
	var err error
	switch {
	case len(args) > 1 && args[0] == "-table":
		err = writeTable(os.Stdout, args[1:])
	case len(args) > 2:
		err = build(args[0], args[1], args[2:])
	default:
		err = errors.New("usage: make dist VERSION=v1.2.3")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func build(version, out string, targets []string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "interlock-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	trees := []string{filepath.Join(temp, "a"), filepath.Join(temp, "another folder")}
	for _, tree := range trees {
		if err := export(tree); err != nil {
			return err
		}
	}
	all, err := modules(targets)
	if err != nil {
		return err
	}
	var files []string
	for _, target := range targets {
		name := "interlock-" + strings.ReplaceAll(target, "/", "-")
		binary := name
		if strings.HasPrefix(target, "windows/") {
			binary += ".exe"
		}
		var sums [][sha256.Size]byte
		for _, tree := range trees {
			data, err := compile(tree, filepath.Join(out, binary), target, version)
			if err != nil {
				return err
			}
			sums = append(sums, sha256.Sum256(data))
		}
		if sums[0] != sums[1] {
			return fmt.Errorf("%s: built in two folders it is not the same", target)
		}
		if err := writeBill(filepath.Join(out, name+".cdx.json"), filepath.Join(out, binary), version, all); err != nil {
			return err
		}
		files = append(files, binary, name+".cdx.json")
	}
	if err := writeLicences(filepath.Join(out, "THIRD_PARTY.txt"), all); err != nil {
		return err
	}
	if err := writeManual(filepath.Join(out, "interlock.1"), trees[0], version); err != nil {
		return err
	}
	files = append(files, "THIRD_PARTY.txt", "interlock.1")
	slices.Sort(files)
	var sums bytes.Buffer
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// export writes HEAD to a new folder.
func export(to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	archive, err := run(exec.Command("git", "-C", root, "archive", "--format=tar", "HEAD"))
	if err != nil {
		return err
	}
	untar := exec.Command("tar", "-x", "-C", to)
	untar.Stdin = bytes.NewReader(archive)
	_, err = run(untar)
	return err
}

// compile is the recipe of a release.
func compile(tree, to, target, version string) ([]byte, error) {
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-X main.release="+version, "-o", to, "./cmd/interlock")
	c.Dir = tree
	c.Env = environment(target)
	if _, err := run(c); err != nil {
		return nil, err
	}
	return os.ReadFile(to)
}

// writeManual writes the page for man(1), which a command of this machine makes of its help.
func writeManual(to, tree, version string) error {
	c := exec.Command("go", "run", "-ldflags=-X main.release="+version, "./cmd/interlock", "man")
	c.Dir = tree
	c.Env = environment(runtime.GOOS + "/" + runtime.GOARCH)
	page, err := run(c)
	if err != nil {
		return err
	}
	return os.WriteFile(to, page, 0o644)
}

// environment is that of the go command, in the workspace.
func environment(target string) []string {
	system, arch, _ := strings.Cut(target, "/")
	return append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0")
}

func run(c *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, stderr.Bytes())
	}
	return out, nil
}
