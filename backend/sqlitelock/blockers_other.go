//go:build !linux

package sqlitelock

// blockers names nobody: this system does not tell who has a lock.
func (f *file) blockers() []string { return nil }
