package main

// own does not look at owners here.
func own(base, dir string) error { return nil }
