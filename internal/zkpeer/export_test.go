package zkpeer

import "github.com/interlock-go/interlock/internal/testserver"

var ClassPath = classPath

func Tool(name string) (string, error) { return testserver.Find(name, jdk) }
