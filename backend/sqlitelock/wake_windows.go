package sqlitelock

// wake is not possible: see openPost.
type wake struct{}

func (folder) wake(string) (w *wake, refused bool) { return nil, false }

func (*wake) wait()  {}
func (*wake) close() {}
