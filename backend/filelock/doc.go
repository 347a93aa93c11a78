// Package filelock keeps locks in the files of a directory.
package filelock
