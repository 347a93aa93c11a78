package main

// interruptSelf does nothing: windows has no such signals.
func interruptSelf() {}
