package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// stopped waits until every thread of a process that was sent SIGSTOP stands still. The signal
// itself stops them one by one, as each is given a processor.
func stopped(p *os.Process) error {
	for range 10_000 {
		if still, err := standsStill(p.Pid); still || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("it does not stand still")
}

func standsStill(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) { // it has just ended
			continue
		}
		if err != nil {
			return false, err
		}
		// The name before the state can have any character.
		if _, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")); !ok || !bytes.HasPrefix(state, []byte("T")) {
			return false, nil
		}
	}
	if len(threads) == 0 {
		return false, os.ErrProcessDone
	}
	return true, nil
}
