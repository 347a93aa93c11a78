//go:build !linux

package sqlitelock

// blockers names no process: this system does not tell which ones have a lock.
func (f *file) blockers() []string { return nil }
