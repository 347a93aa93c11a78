package zkpeer

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed python/*.py
var pythonSource embed.FS

// pythonBinary is the Python of the machine: Debian's kazoo belongs to no other.
const pythonBinary = "/usr/bin/python3"

// python is the command that runs a peer from dir.
func python(dir string, args ...string) (*exec.Cmd, error) {
	if _, err := os.Stat(pythonBinary); err != nil {
		return nil, fmt.Errorf("kazoo needs Python (on Debian: apt-get install python3-kazoo): %w", err)
	}
	if err := unpack(pythonSource, "python", dir); err != nil {
		return nil, err
	}
	return exec.Command(pythonBinary, append([]string{"-B", filepath.Join(dir, "main.py")}, args...)...), nil
}

// unpack writes the files of a folder into dir.
func unpack(from embed.FS, folder, dir string) error {
	sub, err := fs.Sub(from, folder)
	if err != nil {
		return err
	}
	return os.CopyFS(dir, sub)
}
