package guard

import "os"

// PerReap is how many ends of children are collected at once.
const PerReap = perReap

// Ignored tells whether the caller had this process ignore a signal.
var Ignored = ignored

// Exterminate kills all descendants of this process, the warden last. It returns how often
// another of them was seen alive as a child of this process, which it becomes when the
// warden dies.
func Exterminate(warden int) (orphans int) {
	if err := becomeSubreaper(); err != nil {
		panic(err)
	}
	me := os.Getpid()
	f := newFamily(unknown, false)
	f.stat = func(pid int) (stat, error) {
		s, err := readStat(pid)
		if err == nil && s.parent == me && s.state != 'Z' && pid != warden {
			orphans++
		}
		return s, err
	}
	f.children = func(pid int) []int {
		all := childrenOf(pid)
		for _, child := range all {
			f.stat(child)
		}
		return all
	}
	f.exterminate(warden)
	return orphans
}

// ChildrenOf lists the children of a process.
var ChildrenOf = childrenOf

// ReapAll collects the ends of all children of this process, and returns how often
// something else could be done in between.
func ReapAll() (breaks int) {
	g := &guard{family: newFamily(0, false)}
	for !g.reap() {
		breaks++
		if !g.more {
			panic("some children live")
		}
	}
	return breaks
}
