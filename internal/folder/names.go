package folder

import (
	"strings"
	"time"
)

// Files in the folder are called by an ID and a suffix: 32 hexadecimal digits that no other session
// or client has.
const (
	lockSuffix   = ".live" // of a session
	socketSuffix = ".sock" // of a session
	// MailboxSuffix is that of the socket of a client.
	MailboxSuffix = ".post"
)

// Address is where a session is reached.
type Address struct {
	Mailbox string // of its client; "" if it has none
	Session string // its ID; "" if only the client is meant
}

// patience is how long a mailbox that is full is tried.
const patience = 30 * time.Second

// Clear removes files of sessions and clients that have died unnoticed. Those of the last minutes
// stay, and those that are in use, by ID of the session or name of the mailbox.
func (f Folder) Clear(used map[string]bool, m *Mailbox, minutes time.Duration) {
	files, _ := f.List()
	for _, name := range files {
		info, err := f.Root.Lstat(name)
		if err != nil || time.Since(info.ModTime()) < minutes {
			continue
		}
		id, isLock := strings.CutSuffix(name, lockSuffix)
		switch {
		case isLock && !used[id]:
			if lock, _ := f.Dead(id); lock != nil {
				f.RemoveSession(id)
				lock.Close()
			}
		case strings.HasSuffix(name, MailboxSuffix) && !used[name] && m.deserted(name):
			f.Remove(name)
		}
	}
}
