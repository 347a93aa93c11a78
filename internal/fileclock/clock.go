// Package fileclock is the clock of backends whose rows are in files of this machine: all processes
// that share a file read the same.
package fileclock
