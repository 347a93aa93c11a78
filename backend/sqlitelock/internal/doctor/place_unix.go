//go:build unix

package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/trust"
)

// checkPlace looks who can replace the file, or a folder that it is in.
func (d *Doctor) checkPlace(context.Context) driver.Finding {
	path := filepath.Dir(d.Path)
	st, err := os.Lstat(path)
	if err == nil {
		err = trust.Place(path, st, d.Mode)
	}
	if err == nil {
		if st, err = d.Folder.Root.Stat("."); err == nil {
			err = trust.Folder(d.Folder.Path, st, d.Folder.Mode)
		}
	}
	if err != nil {
		return failed(err, exclusion, "see the detail")
	}
	for up := path; up != "/"; {
		up = filepath.Dir(up)
		st, err := os.Lstat(up)
		if err != nil {
			return failed(err, everyLock, "look at the permissions of "+up)
		}
		who := ""
		switch {
		case st.Mode()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0:
			who = "every user"
		case !trust.Ours(st) && !trust.Shared(d.Mode):
			who = trust.Whose(st)
		default:
			continue
		}
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  fmt.Sprintf("%s can write %s, and so replace a folder in which the file is", who, up),
			Promise: exclusion + ", if that is done",
			Remedy:  "move the file to where only root and those who use it can write",
		}
	}
	if trust.Shared(d.Mode) {
		return doctor.Fine("nobody can replace the file but those who share it")
	}
	return doctor.Fine("nobody else can replace the file")
}
