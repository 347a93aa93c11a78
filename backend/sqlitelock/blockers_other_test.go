//go:build !linux

package sqlitelock_test

const blockersAreKnown = false
