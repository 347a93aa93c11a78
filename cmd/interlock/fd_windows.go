package main

import "syscall"

func closeOnExec(fd int) { syscall.CloseOnExec(syscall.Handle(fd)) }

func inFront(int) bool { return true }
