//go:build !race

package drivertest

const slow = false
