package main

// onSQLite are the measurements of the embedded backend: it has no server and
// no peers, so that they are its own.
var onSQLite = []measurement{
	{"sqlite", "uncontended", "one goroutine, one name: acquire and release", uncontended},
	{"sqlite", "goroutines", "10,000 goroutines of one process, one name", goroutines},
	{"sqlite", "drain", "10, 100, 1,000 waiters in 8 processes, one name, StrictOrder", drainCrowds},
}
