package folder

import (
	"strings"
	"time"
)

// Files in the folder are called by the ID of a session, or the name of a mailbox, and a suffix.
const (
	lockSuffix    = ".live" // of a session
	socketSuffix  = ".sock" // of a session
	mailboxSuffix = ".post"
)

// patience is how long a mailbox that is full is tried.
const patience = 30 * time.Second

// Clear removes files of sessions and clients that have died unnoticed. Those of the last minutes stay. It returns the
// sessions that are dead; the files of these are removed when they were found dead before.
func (f Folder) Clear(before map[string]bool, m *Mailbox, minutes time.Duration) (dead map[string]bool) {
	dead = map[string]bool{}
	files, _ := f.List()
	for _, name := range files {
		info, err := f.Root.Lstat(name)
		if err != nil || time.Since(info.ModTime()) < minutes {
			continue
		}
		if id, is := strings.CutSuffix(name, lockSuffix); is {
			if lock, _ := f.Dead(id); lock != nil {
				if dead[id] = true; before[id] {
					f.RemoveSession(id)
				}
				lock.Close()
			}
		} else if box, is := strings.CutSuffix(name, mailboxSuffix); is && m.deserted(box) {
			f.Remove(name)
		}
	}
	return dead
}

// HasMailbox says whether there is a mailbox of that name.
func (f Folder) HasMailbox(name string) bool { return f.Has(name + mailboxSuffix) }
