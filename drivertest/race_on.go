//go:build race

package drivertest

// slow says that everything takes ten times as long.
const slow = true
