package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

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
	if o.url != "" {
		return backend{o.url, "--url"}, nil
	}
	if s := os.Getenv("INTERLOCK_URL"); s != "" {
		return backend{s, "INTERLOCK_URL"}, nil
	}
	switch data, err := os.ReadFile(urlFile); {
	case err == nil:
		if s := strings.TrimSpace(string(data)); s != "" {
			return backend{s, urlFile}, nil
		}
	case !errors.Is(err, os.ErrNotExist):
		return backend{}, usage("%w", err)
	}
	dir, err := stateDir()
	if err != nil {
		return backend{}, usage("no backend: %w; give one with --url, such as sqlite:///var/lib/locks.db", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return backend{}, usage("no backend: %w; give one with --url", err)
	}
	path := filepath.ToSlash(filepath.Join(dir, "locks.db"))
	return backend{"sqlite:" + (&url.URL{Path: path}).EscapedPath(), "the default"}, nil
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
	if err != nil {
		code := exitUnreachable
		if errors.Is(err, interlock.ErrInvalid) {
			code = exitUsage
		}
		return nil, b, failed(code, fmt.Errorf("%w (from %s)", err, b.source))
	}
	return c, b, nil
}

// with opens a client for the time of f.
func (o *options) with(cmd *cobra.Command, f func(ctx context.Context, c *interlock.Client) error) error {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	c, _, err := o.open(ctx)
	if err != nil {
		return err
	}
	err = f(ctx, c)
	if closed := c.Close(); err == nil {
		err = closed
	}
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	return err
}
