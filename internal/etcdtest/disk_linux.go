package etcdtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// traced reports whether all threads of the server are traced.
func (s *Server) traced() (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.Pid()))
	if err != nil || len(threads) == 0 {
		return false, err
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "TracerPid:\t0\n") {
			return false, nil
		}
	}
	return true, nil
}
