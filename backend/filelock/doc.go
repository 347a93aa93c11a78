// Package filelock keeps the locks of one machine in files of a directory, and shares them with
// flock(1) and other programs that call flock(2). It needs the standard library only.
//
//	import _ "github.com/interlock-go/interlock/backend/filelock"
//
//	c, err := interlock.Open(ctx, "file:///var/lib/app/locks")
//
// The URL is file:relative or file:///absolute/directory, with the option
//
//	mode   permissions of files that are made, in octal; 0600 by default, 0660 to share them with
//	       a group
//
// # The files
//
// The lock "backup" is the file "backup" in the directory; a slash in a name is written %2F. A holder
// of a mutex or an election, and a writer, has locked the file exclusively, a reader shared. Lock
// files are never removed: another program may have opened one and be about to lock it.
//
// Below .interlock are the rows: of each queue one file, with its tickets, and of each cell one. A
// transaction locks the file, reads the row, and writes it into a part of the file where the last one
// is not, so that a crash at any byte leaves the old row or the new one. Rows that outlive a power loss
// are synced: raised tokens, fixed ends, cells. Other tokens go on from the clock. The file of a queue
// that is not used for some minutes is removed; tokens go on from a floor, which is a row too.
//
// # Two rules for one lock
//
// The row grants in the order of Join, by the rule of package rows. A ticket that is granted is held
// by its client once that has locked the file, too. Until then it is a waiter that another program
// keeps out. So other programs are not served in our order, nor we in theirs. Semaphores and barriers
// have rows only.
//
// # Death and time
//
// A session keeps a file locked as long as one of its processes lives. A waiter is told by the kernel
// (inotify) when such a file, or the lock file, is closed; else, as on systems without
// inotify, it looks again twice a second or more often. A process that is stopped keeps what it has
// locked: no other client holds before it goes on, or dies. Times are those of package fileclock.
package filelock
