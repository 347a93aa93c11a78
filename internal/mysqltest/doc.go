// Package mysqltest starts real servers of MariaDB, or of MySQL, for tests and
// benchmarks, and disturbs them and the connections to them. [Variable] chooses.
//
// Servers listen on free ports of the loopback interface only, keep their data
// in a temporary folder, and end with the test; on Linux also with the test
// process, however that ends. The first server of a process takes a second to
// start, for its system tables are made; the next ones copy them.
//
// A server has a database, [Database], and a user, [User], with all rights on
// it. This package's own commands go over a Unix socket, as root: a test
// can give or take the rights of all others.
package mysqltest
