// Command faults puts deliberate faults into the code, one at a time, and runs the
// tests that must notice them. A fault that passes is a promise that no test guards.
//
//	go run ./faults            all of them
//	go run ./faults line.go    those whose file or test matches this regular expression
//
// The working tree is not changed: the compiler is given another text of one file (go
// test -overlay).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is a mistake that an engineer could make.
type fault struct {
	file     string // from the root of the repository
	old, new string // old stands in the file exactly once
	pkg      string // whose tests notice it; "" is that of the file
	test     string // as go test -run takes it
}

var faults = slices.Concat(core, backends)

// limit is how long a test may take to notice a fault. A test that only hangs has not
// noticed it.
const limit = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "../..", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, args []string) error {
	pattern, err := regexp.Compile(strings.Join(args, "|"))
	if err != nil {
		return err
	}
	tried, missed := 0, 0
	for _, f := range faults {
		if !pattern.MatchString(f.file) && !pattern.MatchString(f.test) {
			continue
		}
		began := time.Now()
		err := f.try(ctx, root)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "noticed"
		if err != nil {
			verdict = "MISSED: " + err.Error()
			missed++
		}
		tried++
		fmt.Printf("%-60s %-50s %3.0f s  %s\n", f.file+": "+f.title(), f.test, time.Since(began).Seconds(), verdict)
	}
	fmt.Printf("%d faults, %d missed\n", tried, missed)
	switch {
	case tried == 0:
		return errors.New("no fault matches")
	case missed > 0:
		return fmt.Errorf("%d faults were not noticed", missed)
	}
	return nil
}

// title is the first line that the fault changes, for a table.
func (f fault) title() string {
	was := strings.Split(strings.TrimSpace(f.old), "\n")
	is := strings.Split(strings.TrimSpace(f.new), "\n")
	for i, line := range was {
		if i >= len(is) || is[i] != line {
			line = strings.TrimSpace(line)
			return line[:min(len(line), 40)]
		}
	}
	return "(adds lines)"
}

// text is the file with the fault.
func (f fault) text(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, f.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(b), f.old); n != 1 {
		return "", fmt.Errorf("%s: the text to be replaced stands there %d times:\n%s", f.file, n, f.old)
	}
	return strings.Replace(string(b), f.old, f.new, 1), nil
}

// dir is the folder of the package whose tests notice the fault.
func (f fault) dir(root string) string {
	if f.pkg != "" {
		return filepath.Join(root, f.pkg)
	}
	return filepath.Join(root, filepath.Dir(f.file))
}

// try returns nil if a test has failed by name.
func (f fault) try(ctx context.Context, root string) error {
	text, err := f.text(root)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "fault")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	file, err := filepath.Abs(filepath.Join(root, f.file))
	if err != nil {
		return err
	}
	other, overlay := filepath.Join(tmp, filepath.Base(f.file)), filepath.Join(tmp, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: other}})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(other, []byte(text), 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return err
	}
	// The test is built first: the limit is for what it does.
	binary := filepath.Join(tmp, "faulty.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, ".")
	build.Dir = f.dir(root)
	// Some tests build a program themselves: that has the fault too.
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile: %s", out)
	}
	test := exec.CommandContext(ctx, binary, "-test.run", f.test, "-test.timeout", (10 * limit).String())
	test.Dir, test.Env = build.Dir, build.Env
	began := time.Now()
	out, err := test.CombinedOutput()
	took := time.Since(began)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(string(out), "no tests to run"):
		return errors.New("there is no such test")
	case err == nil:
		return errors.New("the test passes")
	case !errors.As(err, &exit):
		return err
	case !strings.Contains(string(out), "--- FAIL: "):
		return fmt.Errorf("no test has failed by name: %s", out)
	case took > limit:
		return fmt.Errorf("the test took %v", took.Round(time.Second))
	}
	return nil
}
