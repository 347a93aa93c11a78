package testserver

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// Until looks again and again until there is a result or an error.
func Until(ready func() (bool, error)) error {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if ok, err := ready(); ok || err != nil {
			return err
		}
		if time.Since(began) > busy.Bound(2*time.Minute) {
			return errors.New("nothing has happened for minutes")
		}
		time.Sleep(pause)
	}
}

// Tail is the end of a file: what a server has said last, without the stacks of its
// exceptions, among which the failure itself would be hard to find.
func Tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	var kept strings.Builder
	for line := range strings.Lines(string(b[max(0, len(b)-16*most):])) {
		if !strings.HasPrefix(line, "\tat ") {
			kept.WriteString(line)
		}
	}
	text := kept.String()
	return text[max(0, len(text)-most):]
}
