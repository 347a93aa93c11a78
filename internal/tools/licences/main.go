// Command licences names the modules that the interlock command is made of, on any of these platforms, and their
// licences. One that is not known here stops it: a person has to look at it.
//
//	licences table GOOS/GOARCH…   writes THIRD_PARTY.md
//	licences texts GOOS/GOARCH…   writes the texts of the licences, which a release has with it
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

var root = "../.." // from the folder of the tools

func main() {
	write := writeTable
	if len(os.Args) > 1 && os.Args[1] == "texts" {
		write = writeTexts
	}
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: licences table|texts GOOS/GOARCH…")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// environment is that of the go command, in the workspace, as a release is built.
func environment(target string) []string {
	system, arch, _ := strings.Cut(target, "/")
	return append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=", "GOEXPERIMENT=")
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
