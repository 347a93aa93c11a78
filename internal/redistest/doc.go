// Package redistest starts real Redis servers for tests and benchmarks, alone,
// as a cluster or watched by sentinels, and disturbs them and the connections
// to them.
//
// Servers listen on free ports of the loopback interface only, keep their data
// in a temporary folder, and end with the test; on Linux also with the test
// process, however that ends. Every server has a user of its own for what this
// package sends to it, so that a test can give or take the rights of all others.
//
// Methods that return no error end the test if they fail, or panic where there
// is no test.
package redistest
