// Package pgtest starts real PostgreSQL servers for tests and benchmarks, and
// PgBouncer in front of them, and disturbs them.
//
// Servers listen on free ports of the loopback interface only, keep their data in
// a temporary folder, and end with the test; on Linux also with the test process,
// however that ends. PostgreSQL does not run as root: if the test does, the
// servers run as the user postgres, or nobody.
//
// The superuser is called postgres. He may connect without a password by the
// folder's socket, which is what this package itself does, so that a test can give
// or take the rights of everybody else.
//
// Methods that return no error end the test if they fail, or panic where there
// is no test.
package pgtest
