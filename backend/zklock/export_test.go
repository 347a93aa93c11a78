package zklock

// Open opens a driver as package driver does it for the registered schemes.
var Open = open
