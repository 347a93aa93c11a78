package zkpeer

var (
	ClassPath = classPath
	Tool      = tool
)
