package sqlitelock

// lifeline is never made: a lock on a file is all that proves that a session lives.
type lifeline struct{}

func (folder) lifeline(string) (l *lifeline, refused bool) { return nil, false }

func (*lifeline) wait() {}

func (*lifeline) Close() error { return nil }
