package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/trust"
)

// urlFile gives the backend of a whole machine.
const urlFile = "/etc/interlock/url"

// backend is the URL to use, and where it comes from.
type backend struct {
	url    string
	source string
	file   string // that the URL was read from
	silent bool   // nobody has said that it is this one
}

// urlVariable, or the file that urlFileVariable names, gives the backend of the commands of a shell.
const (
	urlVariable     = "INTERLOCK_URL"
	urlFileVariable = "INTERLOCK_URL_FILE"
)

// shown is the URL without its password.
func (b backend) shown() string {
	u, err := driver.ParseURL(b.url)
	if err != nil {
		return "(not a URL)"
	}
	return u.String()
}

// backend finds out which backend to use. It reads the file that names it once: that may be a pipe.
func (o *options) backend(ctx context.Context) (b backend, err error) {
	if o.found.url == "" {
		if b, err = o.find(ctx); err != nil {
			return b, err
		}
		o.found = b
	}
	return o.found, nil
}

// named are the given flags that name a backend.
func (o *options) named() (flags []string) {
	for _, f := range []struct {
		flag  string
		given bool
	}{{"--local", o.local}, {"--url", len(o.urls) > 0}, {"--url-file", len(o.urlFiles) > 0}, {"--context", o.context != ""}} {
		if f.given {
			flags = append(flags, f.flag)
		}
	}
	return flags
}

func (o *options) find(ctx context.Context) (backend, error) {
	switch given := o.named(); {
	case len(given) > 1:
		return backend{}, usage("%s exclude each other", strings.Join(given, " and "))
	case o.context != "":
		return ofContext(ctx, o.context)
	case o.local:
		return ownFile("--local")
	case len(o.urls) > 0:
		return backend{url: o.urls[len(o.urls)-1], source: "--url"}, nil
	case len(o.urlFiles) > 0:
		return namedFile(ctx, "--url-file", o.urlFiles[len(o.urlFiles)-1])
	}
	if s := os.Getenv(urlVariable); s != "" {
		return backend{url: s, source: urlVariable}, nil
	}
	if file := os.Getenv(urlFileVariable); file != "" {
		return namedFile(ctx, urlFileVariable, file)
	}
	b, err := readURL(ctx, urlFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return b, err
	}
	if b.url == "" {
		if b, err = ownFile("the default"); err != nil {
			return b, err
		}
		b.silent = true
	}
	return b, b.nested()
}

// backends are all that the flags name, or the one of other commands.
func (o *options) backends(ctx context.Context) (all []backend, err error) {
	if o.local || o.context != "" || len(o.urls)+len(o.urlFiles) < 2 {
		b, err := o.backend(ctx)
		return []backend{b}, err
	}
	for _, url := range o.urls {
		all = append(all, backend{url: url, source: "--url"})
	}
	for _, file := range o.urlFiles {
		b, err := namedFile(ctx, "--url-file", file)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// readURL reads a URL from a file: "" if there is none in it. Ctx ends the read of a pipe, or of another file
// that has no end.
func readURL(ctx context.Context, file string) (backend, error) {
	ctx, cancel := answering(ctx, patience)
	defer cancel()
	var data []byte
	err := until(ctx, func() error {
		f, err := os.OpenFile(file, os.O_RDONLY|trust.Nonblock, 0) // a pipe without a writer is empty
		if err == nil {
			defer f.Close()
			data, err = io.ReadAll(io.LimitReader(f, 64<<10))
		}
		return err
	})
	switch signal := ended(ctx); {
	case err == nil:
	case signal != nil:
		return backend{}, signal
	case ctx.Err() != nil:
		return backend{}, usage("read %s: %w", file, err)
	default:
		return backend{}, usage("%w", err)
	}
	return backend{url: firstLine(string(data)), source: file, file: file}, nil
}

// namedFile reads the file that somebody has named, in which there has to be a URL.
func namedFile(ctx context.Context, by, file string) (backend, error) {
	b, err := readURL(ctx, file)
	if err == nil && b.url == "" {
		err = usage("%s: there is no URL in %s", by, file)
	}
	return b, err
}

// nested refuses a backend that nobody has named in a job whose locks are elsewhere. Most jobs
// do not get the URL: who takes a lock of another backend would not be kept out, and not know it.
func (b backend) nested() error {
	held := os.Getenv(heldVariable)
	if held == "" || b.holds(held) {
		return nil
	}
	return usage("this is a job of interlock, which did not get the URL of its lock: start it with run --pass-url, or name the backend with --url-file, or --local")
}

// exposed is what the doctor says of the rights of the file that the URL is from.
func (b backend) exposed(context.Context) driver.Finding {
	st, err := os.Stat(b.file)
	if b.file == "" || err != nil || runtime.GOOS == "windows" {
		return driver.Finding{}
	}
	mode := st.Mode().Perm()
	if mode&0o022 != 0 {
		return doctor.Warn("those who use this backend are kept out by each other's locks",
			"if they are not all trusted: chmod go-w "+b.file,
			"other users can write %s (mode %04o), and so choose the backend of all who read it", b.file, mode)
	}
	if u, err := driver.ParseURL(b.url); err == nil && u.Secret() && mode&0o004 != 0 {
		return doctor.Warn("only those who have the password can change the locks",
			fmt.Sprintf("give it to a group: chgrp GROUP %s && chmod 0640 %s", b.file, b.file),
			"%s has a password and can be read by every user of this machine (mode %04o)", b.file, mode)
	}
	return driver.Finding{}
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

// open connects to the backend.
func (b backend) open(ctx context.Context, opts ...interlock.ClientOption) (*interlock.Client, error) {
	if _, err := driver.ParseURL(b.url); err != nil {
		return nil, usage("%s: %w", b.source, err)
	}
	c, err := interlock.Open(ctx, b.url, opts...)
	switch signal := ended(ctx); {
	case err == nil:
		return c, nil
	case signal != nil:
		return nil, signal
	case errors.Is(err, interlock.ErrInvalid):
		return nil, failed(exitUsage, fmt.Errorf("%w (from %s)", err, b.source))
	}
	return nil, failed(exitUnreachable, fmt.Errorf("%w (from %s)", err, b.source))
}
