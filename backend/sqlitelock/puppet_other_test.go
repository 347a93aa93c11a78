//go:build !unix

package sqlitelock_test

// Other processes are told what to do, and stopped, on Unix only.
const asPuppet = "SQLITELOCK_TEST_PUPPET"

func servePuppet(string) int { return 1 }
