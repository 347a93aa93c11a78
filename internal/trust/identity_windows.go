package trust

import (
	"errors"
	"io/fs"
	"os"
)

// ID is not needed: an open file cannot be replaced here.
type ID struct{}

func Identify(string) (ID, error) { return ID{}, nil }

func IDOf(*os.File) (ID, error) { return ID{}, nil }

func HardLinks(fs.FileInfo) uint64 { return 1 }

func Writable(path string) error {
	st, err := os.Stat(path)
	if err == nil && st.Mode().Perm()&0o200 == 0 {
		err = errors.New("it is marked as read-only")
	}
	return err
}
