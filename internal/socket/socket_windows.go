// Package socket says which Unix sockets nobody else can have made.
package socket

// Guarded does not know.
func Guarded(string) bool { return false }
