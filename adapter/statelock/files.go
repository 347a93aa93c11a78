package statelock

import (
	"bytes"
	"context"
	"crypto/md5" // Terraform's sum against errors of the network
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
)

// MaxState is how many bytes a state of Files has at most.
const MaxState = 64 << 20

// Files keeps states in a folder, for [New]: a state is a file that its user alone can read, such as
// network%2Fprod.tfstate for the path /network/prod. The one before it is beside it (.backup), and so is the largest
// token that it has seen (.fence): a write that comes after one of a later holder is refused, also if its server was
// stopped meanwhile. Several servers of one machine may share the folder. Its file system must tell upper case from
// lower.
type Files struct {
	dir string
	is  os.FileInfo // of the folder
}

// NewFiles takes the folder, which has to be there: an empty one in its place would have Terraform make everything
// anew. It is an error if other users may look into it.
func NewFiles(dir string) (*Files, error) {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: make it (mkdir -m 700 %s), or mount what is to be there", err, dir)
	case err != nil:
		return nil, err
	case !st.IsDir():
		return nil, fmt.Errorf("%s is not a folder", dir)
	case os.PathSeparator == '/' && st.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("other users may look into %s, and states have secrets: it needs the mode 700", dir)
	}
	return &Files{dir: dir, is: st}, nil
}

// there is an error if the folder is gone, or another one is in its place, such as what an unmounted one hid.
func (f *Files) there() error {
	st, err := os.Stat(f.dir)
	if err == nil && !os.SameFile(st, f.is) {
		err = fmt.Errorf("%s is another folder than it was at the start", f.dir)
	}
	return err
}

// ServeHTTP answers GET and HEAD with the state, or 404; POST and PUT replace it, DELETE removes it: 200. A write that
// is stale is refused with 409. A body that has changed on its way (Content-MD5), or is not JSON, is one of 400, a
// longer one than [MaxState] of 413, and an error of the folder of 500: also if it is gone.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := url.QueryEscape(strings.Trim(r.URL.Path, "/")) + ".tfstate"
	path := filepath.Join(f.dir, name)
	switch err := f.there(); {
	case err != nil:
		said(w, r, err)
	case name == ".tfstate":
		http.Error(w, "the path is the name of a state, such as /network", http.StatusNotFound)
	case len(name) > 240:
		http.Error(w, "the name of the state is too long", http.StatusRequestURITooLong)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		f.read(w, r, path)
	case r.Method == http.MethodDelete:
		said(w, r, fenced(r.Context(), path, func() error { return f.remove(path) }))
	case r.Method == http.MethodPost, r.Method == http.MethodPut:
		state, a := whole(w, r, MaxState)
		switch sum := r.Header.Get("Content-MD5"); {
		case a.status != http.StatusOK:
			a.write(w)
		case sum != "" && sum != sumOf(state):
			http.Error(w, "the state has not arrived as it was sent", http.StatusBadRequest)
		case !json.Valid(state):
			http.Error(w, "a state is JSON, and this is not", http.StatusBadRequest)
		default:
			said(w, r, fenced(r.Context(), path, func() error { return f.replace(r.Context(), path, state) }))
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, DELETE, LOCK, UNLOCK")
		http.Error(w, r.Method+" is not known here", http.StatusMethodNotAllowed)
	}
}

func sumOf(state []byte) string {
	sum := md5.Sum(state)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (f *Files) read(w http.ResponseWriter, r *http.Request, path string) {
	state, err := os.ReadFile(path)
	gone := f.there() // then nothing is known of the state
	switch {
	case gone != nil:
		said(w, r, gone)
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "there is no such state", http.StatusNotFound)
	case err != nil:
		said(w, r, err)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-MD5", sumOf(state))
		w.Header().Set("Content-Length", fmt.Sprint(len(state)))
		_, _ = bytes.NewReader(state).WriteTo(w)
	}
}

// said answers with an error, if there is one.
func said(w http.ResponseWriter, r *http.Request, err error) {
	switch lost := context.Cause(r.Context()); {
	case err == nil:
	case errors.Is(lost, interlock.ErrLost):
		http.Error(w, "the lock was lost: "+lost.Error(), http.StatusConflict)
	case errors.Is(err, fence.ErrStale):
		http.Error(w, "the lock was lost: "+err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// fenced does a write, unless it comes after one of a later holder. Without a lock nothing is known of that.
func fenced(ctx context.Context, path string, write func() error) error {
	lease := interlock.LeaseFrom(ctx)
	if lease == nil {
		return write()
	}
	return fence.NewFile(path+".fence").Do(ctx, lease, write)
}

// replace puts the state in the place of the one before, whole or not at all, also if the machine stops.
func (f *Files) replace(ctx context.Context, path string, state []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, state) {
		return nil // a request that is repeated takes the place of no backup
	}
	file, err := os.CreateTemp(f.dir, ".writing-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(state)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.backup(path); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return f.sync()
}

func (f *Files) remove(path string) error {
	if err := f.backup(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.sync()
}

// backup keeps the state that is about to go, if there is one.
func (f *Files) backup(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	old := path + ".backup"
	if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, old); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return err // else another one, without a lock, was faster
	}
	return nil
}

// sync makes the names in the folder durable. Windows has no such call.
func (f *Files) sync() error {
	if os.PathSeparator == '\\' {
		return nil
	}
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
