package driver

// Sharing is implemented by a [Driver] that can keep what the primitives have in cells
// where another library has it, so that its programs take part.
type Sharing interface {
	// Shared names the cell of a primitive ("barrier", or "round" of a double barrier: see [Round]) with the name of a queue; ok is
	// false if it is not shared. The name is for Load, Swap and Watch alone. A deleted
	// cell of this kind may be one that was never set.
	Shared(what, name string) (cell string, ok bool)
}
