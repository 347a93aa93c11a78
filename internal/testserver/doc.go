// Package testserver starts real servers for tests and benchmarks, and disturbs them and the connections to them.
//
// A [Server] is a port, a folder and a process, which is started when [Program] says that it is ready, and can be
// killed, paused and started again. A [Proxy] disturbs connections; an [Interceptor] also loses, drops or holds back
// messages. The packages redistest, zktest, etcdtest, pgtest and mysqltest each describe a program, with its options,
// and add what only its servers can do:
//
//	           starts     is ready when it                 wall clock  groups                 its messages
//	redistest  Start Run  answers PING, and its own PID    FakeTime    cluster, Sentinel      RESP: LoseReplies, DropPushes
//	zktest     Start Run  names its data, and has a mode   –           ensemble, Freeze       frames: Hold, Lose, Observe
//	etcdtest   Start Run  is healthy                       SetClock    cluster, StickDisk     –
//	pgtest     Start Run  says so in postmaster.pid        FakeTime    standby, pooler        DropNotifications
//	mysqltest  Start Run  has its own PID in server.pid    –           replica                –
//
// All servers listen on free ports of the loopback interface only, keep their data in a temporary folder, and end with
// the test; on Linux also with the test process, however that ends. Methods that return no error end the test if they
// fail, or panic where there is no test.
package testserver
