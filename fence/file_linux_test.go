package fence_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: what is no ordinary file is refused, and not waited for; so is a link of another user.
func TestOnlyAnOrdinaryFileIsUsed(t *testing.T) {
	dir := t.TempDir()
	pipe, link, target := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "target")
	errtest.None(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, path := range []string{pipe, os.DevNull} {
		if err := fence.NewFile(path).Check(ctx, fence.Token(1)); err == nil || !strings.Contains(err.Error(), "not an ordinary file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link for another user")
	}
	for _, of := range []int{0, 64301} {
		folder, new := filepath.Join(dir, fmt.Sprint("to ", of)), filepath.Join(dir, fmt.Sprint("new ", of))
		errtest.None(t, os.Mkdir(new, 0o700))
		errtest.None(t, os.Symlink(new, folder))
		errtest.None(t, os.Lchown(folder, of, of))
		err := fence.NewFile(filepath.Join(folder, "file")).Check(ctx, fence.Token(1))
		if made, _ := os.ReadDir(new); (err == nil) != (of == 0) || (len(made) > 0) != (of == 0) {
			t.Errorf("a link of user %d to a folder: %v, and %v", of, err, made)
		}
		_ = os.Remove(link)
		errtest.None(t, os.WriteFile(target, nil, 0o600))
		errtest.None(t, os.Symlink(target, link))
		errtest.None(t, os.Lchown(link, of, of))
		err = fence.NewFile(link).Check(ctx, fence.Token(1))
		if st, _ := os.Stat(target); (err == nil) != (of == 0) || (st.Size() > 0) != (of == 0) {
			t.Errorf("a link of user %d: %v, and %d bytes", of, err, st.Size())
		}
	}
}
