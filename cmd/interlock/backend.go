package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// urlFile gives the backend of a whole machine.
const urlFile = "/etc/interlock/url"

// backend is the URL to use, and where it comes from.
type backend struct {
	url    string
	source string
	silent bool // nobody has said that it is this one
}

// shown is the URL without its password.
func (b backend) shown() string {
	u, err := driver.ParseURL(b.url)
	if err != nil {
		return "(not a URL)"
	}
	return u.String()
}

// backend finds out which backend to use.
func (o *options) backend() (backend, error) {
	switch {
	case o.local && o.url != "":
		return backend{}, usage("--local and --url exclude each other")
	case o.local:
		return ownFile("--local")
	case o.url != "":
		return backend{url: o.url, source: "--url"}, nil
	}
	if s := os.Getenv("INTERLOCK_URL"); s != "" {
		return backend{url: s, source: "INTERLOCK_URL"}, nil
	}
	switch data, err := os.ReadFile(urlFile); {
	case err == nil:
		if s := firstLine(string(data)); s != "" {
			return backend{url: s, source: urlFile}, nil
		}
	case !errors.Is(err, os.ErrNotExist):
		return backend{}, usage("%w", err)
	}
	b, err := ownFile("the default")
	b.silent = true
	return b, err
}

// firstLine is the first line that is neither empty nor a comment.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// ownFile is the SQLite file of this user on this machine.
func ownFile(source string) (backend, error) {
	dir, err := stateDir()
	if err != nil {
		return backend{}, usage("no backend: %w; give one with --url, such as sqlite:///var/lib/locks.db", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return backend{}, usage("no backend: %w; give one with --url", err)
	}
	path := (&url.URL{Path: filepath.ToSlash(filepath.Join(dir, "locks.db"))}).EscapedPath()
	return backend{url: "sqlite:" + strings.ReplaceAll(path, "@", "%40"), source: source}, nil
}

// stateDir is where this user's programs keep what outlives them.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "interlock"), nil
	}
	if runtime.GOOS == "windows" {
		dir, err := os.UserCacheDir()
		return filepath.Join(dir, "interlock"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "interlock"), nil
}

// open connects to the backend.
func (o *options) open(ctx context.Context, opts ...interlock.ClientOption) (*interlock.Client, backend, error) {
	b, err := o.backend()
	if err != nil {
		return nil, b, err
	}
	if _, err := driver.ParseURL(b.url); err != nil {
		return nil, b, usage("%s: %w", b.source, err)
	}
	c, err := interlock.Open(ctx, b.url, opts...)
	switch signal := ended(ctx); {
	case err == nil:
		return c, b, nil
	case signal != nil:
		return nil, b, signal
	case errors.Is(err, interlock.ErrInvalid):
		return nil, b, failed(exitUsage, fmt.Errorf("%w (from %s)", err, b.source))
	}
	return nil, b, failed(exitUnreachable, fmt.Errorf("%w (from %s)", err, b.source))
}

// with opens a client for the time of f, which does not wait for other clients: its
// context ends when the backend has been waited for long enough.
func (o *options) with(cmd *cobra.Command, f func(ctx context.Context, c *interlock.Client) error) error {
	return o.connect(cmd, patience, f)
}

// waits is with for commands that wait for other clients, and so for the backend: it
// tells when that goes away and when it is back.
func (o *options) waits(cmd *cobra.Command, f func(ctx context.Context, c *interlock.Client) error) error {
	return o.connect(cmd, 0, f)
}

// streams is waits for commands that write whenever something has changed: it ends when
// nobody can read that any more.
func (o *options) streams(cmd *cobra.Command, f func(ctx context.Context, c *interlock.Client) error) error {
	return o.waits(cmd, func(ctx context.Context, c *interlock.Client) error {
		ctx, stop := untilUnread(ctx, cmd.OutOrStdout())
		defer stop()
		if err := f(ctx, c); err != nil || ctx.Err() == nil {
			return err
		}
		return context.Cause(ctx)
	})
}

// connect opens a client for the time of f, which gets so much time; 0: until a signal.
func (o *options) connect(cmd *cobra.Command, limit time.Duration, f func(ctx context.Context, c *interlock.Client) error) error {
	signals, stop := untilSignal(cmd.Context())
	defer stop()
	ctx, cancel := answering(signals, cmp.Or(limit, patience))
	defer cancel()
	c, _, err := o.open(ctx)
	if err != nil {
		return err
	}
	if limit == 0 {
		ctx = signals
	}
	k := newClient(c, cmd.Flags().Arg(0), func(_, text string) {
		fmt.Fprintln(cmd.ErrOrStderr(), "interlock:", line(text))
	})
	unwatch := k.watch(ctx, time.Second)
	err = f(ctx, c)
	unwatch()
	closed := k.finish()
	if err == nil {
		return nil
	}
	if signal := ended(signals); signal != nil {
		return signal
	}
	return unanswered(err, k.whyAway(), closed)
}
