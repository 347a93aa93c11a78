package zkpeer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Count acquires the lock, adds one to the number in a file, and releases the
// lock, n times. See NewCount.
func (l *Lock) Count(ctx context.Context, file string, n int) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	return l.call(ctx, "lock.count", Args{"file": file, "n": n}, nil)
}

// The number always has as many digits, so that a write never shortens the file
// and a reader always finds a number.
const digits = 20

// NewCount writes a file with the number zero. Whoever adds to it reads it, waits
// a moment, and writes it, without any lock: if two do that at the same time, one
// addition is lost.
func NewCount(file string) error {
	return os.WriteFile(file, fmt.Appendf(nil, "%0*d", digits, 0), 0o600)
}

// ReadCount returns the number in the file.
func ReadCount(file string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(b))
}

// Increment adds one, as the peers do it. The caller has to hold the lock.
func Increment(file string) error {
	n, err := ReadCount(file)
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Microsecond) // another who is here as well is not missed
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%0*d", digits, n+1); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
