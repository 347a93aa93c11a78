// Package sqlitelock keeps the locks of one machine in one SQLite file that
// many processes share: the embedded default, without a server and without cgo.
//
//	import _ "github.com/interlock-go/interlock/backend/sqlitelock"
//
//	c, err := interlock.Open(ctx, "sqlite:locks.db")
//
// The URL is sqlite:rel.db or sqlite:///abs/locks.db, with the options
//
//	mode   permissions of a file that is made, in octal; 0600 by default,
//	       0660 to share it with a group
//
// On Unix a file is refused that a user could replace or forge without sharing it, by the owners and
// modes of the file, its folder, and the folder beside it: see docs/sqlite.md.
//
// # The file
//
// The file is in WAL mode. Every exchange is one short transaction. One transaction at a
// time writes, the one that has the write lock: a lock on the file "turn" in the folder
// <file>-interlock, because SQLite's own lock is waited for by sleeping. The file must be on a file
// system of this machine; its folder, not the file alone, is what containers should share. The clients of a
// process share its connections.
//
// A queue is a row: its tickets, by the rule of package rows, in one value. So an exchange reads and writes one
// row. Of a long queue only the holders and the first waiters are there. The other waiters, its tail, have rows of
// their own, so that a hand-over takes the same time however many wait. There are no rows of sessions: a heartbeat
// writes the row of each queue in which its session has a ticket, and those of its tickets in tails.
//
// Commits that grant or release are not synchronous: a power loss leaves no
// holder, and the tokens go on from the clock. Cells, tokens that are raised and
// fixed ends outlive a holder, so their commits are synchronous.
//
// # Time
//
// On Linux the file's time is the time since boot, suspension included, so no
// step of the wall clock ends a lease. A row says in which boot it was written: after a reboot
// its sessions are over and its fixed ends count on by the wall clock. On
// other systems the file's time is the wall clock: a step by more than the
// margin of a lease breaks the promise there.
//
// # Messages
//
// Each client has a mailbox, a datagram socket in the folder beside the file. An exchange that
// grants, demands or removes sends events to the clients concerned, and to no others; so does one
// that changes what a client follows or watches. They are sent after the commit. A message that is lost is made
// up for by heartbeats, and in Follow and Watch by a look at the file every few seconds. Where there
// are no such sockets (Windows), waiters look at the file ten times a second.
//
// # Death
//
// A session holds a lock (flock) on a file of its own as long as a descriptor of it is open in any
// process. A client with a waiter has a lifeline to each session in front of it: a connection to a socket of
// that session, which is never accepted and breaks when the last owner of the socket is gone. Then
// the lock decides. So a process that is killed is replaced at once, in other containers too, and a
// child that has inherited the files of Liveness keeps the session. In a tail nobody is watched; but each
// heartbeat of a client looks who holds in the queues in which it waits. A session that is alive but
// does not renew loses its tickets by their TTL.
//
// A process that is stopped (SIGSTOP) in the middle of a transaction, some tens of microseconds, or while it opens the
// file keeps all others from writing until it continues or dies, and likewise another program that writes, or waits for
// readers in a checkpoint. Errors of the driver name it, as interlock doctor does.
//
// # Words
//
// Beside those of packages exchange and rows:
//
//   - Write lock: the lock that lets one transaction at a time write.
//   - Message: the events that one client sends to another.
//   - Lifeline: the connection that shows that the process of another session lives.
package sqlitelock
