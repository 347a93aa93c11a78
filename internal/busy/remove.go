package busy

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// RemoveAll is [os.RemoveAll] for a folder in which running clients make files meanwhile: it removes what they have
// made, too, for up to ten seconds.
func RemoveAll(dir string) error {
	for end := time.Now().Add(Bound(10 * time.Second)); ; {
		err := os.RemoveAll(dir)
		if !errors.Is(err, syscall.ENOTEMPTY) || time.Now().After(end) {
			return err
		}
	}
}
