package folder

// Lifeline is never made: a lock on a file is all that proves that a session lives.
type Lifeline struct{}

func (Folder) Lifeline(string) (l *Lifeline, refused bool) { return nil, false }

func (*Lifeline) Wait() {}

func (*Lifeline) Close() error { return nil }
