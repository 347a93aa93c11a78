//go:build linux

// Package browsertest opens the page of interlock ui in a real browser (Debian's chromium), over the command as it is
// built, and does what its users do.
package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// patience bounds each wait. It grows with the load of the machine.
const patience = 30 * time.Second

var screenshots = flag.String("screenshots", "", "write what the pages look like into this `folder`")

// command is the file of interlock, and browser that of Chromium.
var command, browser string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "interlock-ui-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if browser, err = exec.LookPath("chromium"); err != nil {
			fmt.Fprintln(os.Stderr, "chromium is not there: install it (Debian: apt-get install chromium)")
			return 1
		}
		command = filepath.Join(dir, "interlock")
		build := exec.Command("go", "build", "-o", command, "../..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// world is a backend with the commands that use it.
type world struct {
	t   *testing.T
	dir string
	url string
}

func newWorld(t *testing.T) *world { return &world{t, t.TempDir(), "sqlite:locks.db?ttl=15s"} }

// command makes a command that uses the backend.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(command, args...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), "INTERLOCK_URL="+w.url)
	return cmd
}

// start runs a command until the test ends, and returns it.
func (w *world) start(args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := w.command(args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	errtest.None(w.t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	w.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(busy.Bound(patience)):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			w.t.Errorf("interlock %s does not end", strings.Join(args, " "))
		}
	})
	return cmd
}

// run runs a command to its end.
func (w *world) run(args ...string) string {
	w.t.Helper()
	cmd := w.command(args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("interlock %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// until waits until a command writes something.
func (w *world) until(text string, args ...string) {
	w.t.Helper()
	for end := time.Now().Add(busy.Bound(patience)); ; time.Sleep(20 * time.Millisecond) {
		out := w.run(args...)
		if strings.Contains(out, text) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("interlock %s does not write %q:\n%s", strings.Join(args, " "), text, out)
		}
	}
}

// ui starts interlock ui and returns the address that it prints.
func (w *world) ui(args ...string) string {
	w.t.Helper()
	cmd := w.command(append([]string{"ui"}, args...)...)
	out := errtest.Must(cmd.StdoutPipe())(w.t)
	var said bytes.Buffer
	cmd.Stderr = &said
	errtest.None(w.t, cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("interlock ui: %s", said.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatalf("interlock ui: %v: %s", err, said.String())
	}
	return strings.TrimSpace(line)
}

// tab is a page of a browser of its own, that asserts that no page says anything by alert, and logs no error.
type tab struct {
	context.Context
	t *testing.T
}

func newTab(t *testing.T, width, height int) tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox,
		chromedp.WindowSize(width, height), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("allow-pre-commit-input", true)) // else a press before the first picture of a page is dropped
	ctx, cancel := context.WithTimeout(context.Background(), 3*busy.Bound(patience))
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	ctx, shut := chromedp.NewContext(ctx)
	t.Cleanup(func() { shut(); end(); cancel() })
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context of its first actions
		t.Fatal("chromium: ", err)
	}
	return tab{ctx, t}
}

// do runs actions, each within a bound.
func (b tab) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b, busy.Bound(patience))
	defer cancel()
	err := chromedp.Run(ctx, actions...)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("it does not happen; the page has: " + b.text())
		}
		b.t.Fatalf("%s: %v", what, err)
	}
}

// text is what a reader sees.
func (b tab) text() (text string) {
	ctx, cancel := context.WithTimeout(b, 5*time.Second)
	defer cancel()
	_ = chromedp.Run(ctx, chromedp.Evaluate(`location.href + "\n" + document.title + "\n" + document.body.innerText`, &text))
	return text
}

// becomes waits until an expression is true. A page that is left meanwhile is looked at again.
func (b tab) becomes(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(busy.Bound(patience)); ; time.Sleep(30 * time.Millisecond) {
		var is bool
		ctx, cancel := context.WithTimeout(b, 5*time.Second)
		err := chromedp.Run(ctx, chromedp.Evaluate("Boolean("+expression+")", &is))
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: it does not happen (%v); the page has: %s", what, err, b.text())
		}
	}
}

// sees waits until a reader sees a text.
func (b tab) sees(text string) {
	b.t.Helper()
	b.becomes("sees "+text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// click clicks the first element of a kind that has this text; "": any.
func (b tab) click(selector, text string) {
	b.t.Helper()
	b.becomes("click "+selector+" "+text, fmt.Sprintf(`(e => e && (e.click(), true))([...document.querySelectorAll(%q)].find(e => %q == "" || e.innerText.trim() == %q))`, selector, text, text))
}

// gone waits until no element of a kind has this text.
func (b tab) gone(selector, text string) {
	b.t.Helper()
	b.becomes("gone: "+text, fmt.Sprintf(`![...document.querySelectorAll(%q)].some(e => e.innerText.trim() == %q)`, selector, text))
}

// eval is the value of an expression.
func eval[T any](b tab, expression string) (v T) {
	b.t.Helper()
	b.do(expression, chromedp.Evaluate(expression, &v))
	return v
}

// shot keeps what the page looks like, if the command line says where.
func (b tab) shot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	var png []byte
	b.do("screenshot", chromedp.CaptureScreenshot(&png))
	errtest.None(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
}
