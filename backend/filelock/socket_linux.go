package filelock

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// oPath is O_PATH, which package syscall does not have.
const oPath = 0x200000

// chmodSocket gives a socket of this user a mode. Other users may write its folder: what else they have put in its place
// is left alone.
func chmodSocket(path string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, oPath|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket || owner(st) != os.Geteuid() {
		return fmt.Errorf("%s is not the socket that was made; remove it", path)
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), mode)
}
