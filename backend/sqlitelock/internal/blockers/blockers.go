// Package blockers tells which processes keep others from using files.
package blockers

import (
	"sync"
	"time"
)

// Blockers are the processes that have locked one of some files exclusively. Names looks for them once in a
// while, since that is dear: it stops all processes that lock or unlock any file of this machine, and many
// calls may want to know. Its zero value is of no files.
type Blockers struct {
	files []string

	mu  sync.Mutex
	at  time.Time // of the last look
	who []string
}

// Of returns the blockers of files, which need not exist yet. A process that has locked one may wait for a later one.
func Of(files ...string) *Blockers { return &Blockers{files: files} }

const lookEvery = time.Second

// Names describes the processes that were seen by a look within the last second, as far as this one may
// see them; none on systems that do not tell who has locked a file.
func (b *Blockers) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() || time.Since(b.at) >= lookEvery {
		b.who, b.at = look(b.files), time.Now()
	}
	return b.who
}
