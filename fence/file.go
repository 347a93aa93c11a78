package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/interlock-go/interlock/internal/flock"
)

// File keeps the largest token in a small file, for a resource that several
// processes of one machine write and that has no database: a folder, a
// device, a program that is called.
//
// It relies on the file locks of the operating system, which network file
// systems do not all keep between machines. The file must stay: who deletes it
// makes the resource accept any token again.
type File struct{ path string }

// NewFile names the file, which the first check makes.
func NewFile(path string) *File { return &File{path} }

// Check refuses the grant with ErrStale if a larger token has been seen, and
// otherwise refuses all smaller ones from now on. It says nothing of what
// happens after it returns: writes belong into [File.Do].
func (f *File) Check(ctx context.Context, g Grant) error {
	return f.Do(ctx, g, func() error { return nil })
}

// Do runs do if [File.Check] accepts the grant. One process runs it at a time,
// so that it ends before a larger token is accepted: others wait for it, for as
// long as their contexts let them. That holds for a process that is stopped in
// the middle too; do should be short. What do starts and leaves behind is not
// waited for.
func (f *File) Do(ctx context.Context, g Grant, do func() error) (err error) {
	file, err := f.Open(ctx, g)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); closed != nil && err == nil {
			err = fmt.Errorf("fence: %w", closed)
		}
	}()
	return do()
}

// Open is [File.Do] for work of other processes. If [File.Check] accepts the grant, it returns
// the file, open and locked: every other check of it waits, for as long as its context lets it,
// until the file is closed. On Unix that is when all processes have closed it, or have ended,
// that have inherited its descriptor from this one; on Windows when this process has, whatever
// others have inherited. The caller must not write to the file. The lock is shared, so that a child can get
// one of its own, by an opening of its own: who inherits the descriptor can unlock it for all.
func (f *File) Open(ctx context.Context, g Grant) (*os.File, error) {
	token, err := token(g)
	if err != nil {
		return nil, err
	}
	for {
		file, err := flock.Open(ctx, f.path)
		if err != nil {
			return nil, fmt.Errorf("fence: %w", err)
		}
		shared := false
		if err = f.accept(file, token); err == nil {
			shared, err = share(file)
		}
		if shared {
			err = f.accept(file, token) // another one may have come and gone before it was shared
		}
		if shared && err == nil {
			return file, nil
		}
		_ = file.Close() // nothing was written, or that has failed
		if err != nil {
			return nil, err
		}
	}
}

// share is replaced by tests.
var share = flock.Share

// accept refuses a token that is smaller than the one in the file, and writes one that is larger.
func (f *File) accept(file *os.File, token int64) error {
	seen, err := read(file)
	switch {
	case err != nil:
	case token < seen:
		return &StaleError{Resource: f.path, Token: uint64(token), Seen: uint64(seen)}
	case token > seen:
		err = write(file, token)
	}
	if err != nil {
		return fmt.Errorf("fence %s: %w", f.path, err)
	}
	return nil
}

// The file has one line of always the same length, so that writing it never
// leaves a piece of an older, longer one.
const (
	line   = "%019d\n"
	length = 20
)

// read returns the token in the file, 0 if it is empty.
func read(f *os.File) (int64, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, length+1))
	if err != nil || len(text) == 0 {
		return 0, err
	}
	if len(text) == length && text[length-1] == '\n' {
		if seen, err := strconv.ParseUint(string(text[:length-1]), 10, 63); err == nil && seen > 0 {
			return int64(seen), nil
		}
	}
	return 0, errors.New("this is no file of fence: it should have one line, of 19 digits; check that the name is right")
}

func write(f *os.File, token int64) error {
	if _, err := f.WriteAt(fmt.Appendf(nil, line, token), 0); err != nil {
		return err
	}
	return synced(f)
}

// synced is replaced by tests.
var synced = (*os.File).Sync
