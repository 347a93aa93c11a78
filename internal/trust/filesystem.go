// Package trust says which files and folders may be used: by their owners and modes, and by the file
// system that they are on.
package trust

import "fmt"

// Kind says what a file system promises.
type Kind struct {
	Name    string
	Network bool // others see the files, but not our locks and messages: other machines, or other mounts of a folder
	Unknown bool // it may be either
}

// Local refuses a folder on a file system through which others see the files, but not our locks.
func Local(path string) error {
	kind, err := Filesystem(path)
	if err == nil && kind.Network {
		err = fmt.Errorf("%s is on %s: not all who see the files there see the locks; use a disk of this machine itself, or a server backend", path, kind.Name)
	}
	return err
}
