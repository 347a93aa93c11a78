// Package zkpeer runs lock clients of other languages against a ZooKeeper
// server, for tests and benchmarks: Curator in a JVM, kazoo in Python. Both do
// what they are told over a pipe, and both obey the same Go code.
//
// A peer is one process. It has sessions, which are clients with connections of
// their own, and a session has threads. What is done in one thread is done in
// order; threads do not wait for each other. A lock of Curator belongs to its
// thread. A peer is also its own first session, and a session its own first
// thread:
//
//	p := zkpeer.Curator(t, server.Addr)
//	err := p.Mutex("/stock").Acquire(ctx)
//	ok, err := p.Thread("b").Write("/config").TryAcquire(ctx, time.Second)
//	leader := p.Session("c").Latch("/leader", "c")
//
// Curator and kazoo use different names for their nodes. On one path their locks
// do not exclude each other: see LockPatterns.
//
// A peer ends with the test, at once: its sessions time out on the server. On
// Linux it also ends with the test process, however that ends; elsewhere when its
// pipe does.
//
// A call whose context ends kills the peer, since nobody knows any more what it
// holds. To give up waiting, use a timeout.
//
// The programs are compiled and run where they are needed, with what Debian's
// packages default-jdk-headless, libcurator-recipes-java and python3-kazoo bring.
package zkpeer
