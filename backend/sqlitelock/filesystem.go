package sqlitelock

// filesystemKind says what a file system promises.
type filesystemKind struct {
	name    string
	network bool // other machines see the files, but not our locks and messages
	unknown bool // it may be either
}
