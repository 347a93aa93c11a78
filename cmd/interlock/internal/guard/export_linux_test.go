package guard

// PerReap is how many ends of children are collected at once.
const PerReap = perReap

// Ignored tells whether the caller had this process ignore a signal.
var Ignored = ignored

// Exterminate kills all descendants of this process, the warden last.
func Exterminate(warden int) { newFamily(unknown, false).exterminate(warden) }

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
