// Package testserver is what the launchers of real servers for tests have in
// common: processes that end with the test process, ports that nobody else is
// given, certificates, what answers in the place of a server, and a proxy that disturbs
// connections.
package testserver
