// Package trust says which files and folders may be used: by their owners and modes, and by the file
// system that they are on.
package trust

// Kind says what a file system promises.
type Kind struct {
	Name    string
	Network bool // other machines see the files, but not our locks and messages
	Unknown bool // it may be either
}
