//go:build unix

package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
)

func init() {
	strategies["stopped, fenced"] = stopsBeforeItWrites(true)
	strategies["stopped, not fenced"] = stopsBeforeItWrites(false)
}

// stopFile names the file in which the worker that is about to be stopped
// leaves its process id.
const stopFile = "INTERLOCK_TEST_STOP_FILE"

// stopsBeforeItWrites is the mutex, used by code that does not look whether it
// still has it. Worker 1 stops between its first read and its first write; the
// others begin then.
func stopsBeforeItWrites(fenced bool) func(*shop) (sell, error) {
	return func(s *shop) (sell, error) {
		locks, err := s.locks()
		if err != nil {
			return nil, err
		}
		lock := locks.Mutex(s.lock)
		tokens, err := fence.NewColumn(s.fence, s.itemsTable, "id", "token")
		if err != nil {
			return nil, err
		}
		file := os.Getenv(stopFile)
		var transactions atomic.Int64
		return func(ctx context.Context, buyer int) (sold bool, err error) {
			for s.worker != 1 {
				if _, err := os.Stat(file); err == nil {
					break
				} else if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
					return false, errors.Join(err, ctx.Err())
				}
				time.Sleep(time.Millisecond)
			}
			o := order{buyer: buyer, worker: s.worker}
			err = lock.Do(ctx, func(held context.Context) (err error) {
				sold, err = s.buy(ctx, o, func(tx *sql.Tx) error {
					if s.worker == 1 && transactions.Add(1) == 2 {
						if err := stop(file); err != nil {
							return err
						}
					}
					if !fenced {
						return nil
					}
					return tokens.Check(ctx, tx, o.item, interlock.LeaseFrom(held))
				})
				return err
			})
			return sold, err
		}, nil
	}
}

// stop says which process it is and stops it, until somebody continues it.
func stop(file string) error {
	temporary := file + ".new"
	if err := os.WriteFile(temporary, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.Rename(temporary, file); err != nil {
		return err
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-continued // the call may return before the process is stopped
	return nil
}

// A worker reads the stock and is stopped until the others have sold all of it.
// Then it writes what it believes is left. Only the token at the resource can
// tell that this write is late.
func TestAStoppedWorkerOversellsUnlessItIsFenced(t *testing.T) {
	const buyers, workers = 30, 3
	for strategy, fenced := range map[string]bool{"stopped, fenced": true, "stopped, not fenced": false} {
		t.Run(strategy, func(t *testing.T) {
			tempDir(t)
			file := filepath.Join(t.TempDir(), "stopped")
			t.Setenv(stopFile, file)
			continued := false
			results, err := Run(t.Context(), Config{
				Stock: 10, Buyers: buyers, Workers: workers, Strategies: []string{strategy},
				URL: fileURL("sqlite", filepath.Join(t.TempDir(), "locks.db")) + "?ttl=2s",
				Progress: func(p Progress) {
					if p.Served < buyers-buyers/workers || continued {
						return
					}
					text, err := os.ReadFile(file)
					if err != nil {
						t.Error(err)
						return
					}
					pid, err := strconv.Atoi(string(text))
					if err != nil {
						t.Error(err)
						return
					}
					if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
						t.Error(err)
					}
					continued = true
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			switch {
			case fenced && (!r.Exact() || r.Retries == 0):
				t.Errorf("got %+v, want the late write refused and exactly the stock sold", r)
			case !fenced && r.Oversold == 0:
				t.Errorf("got %+v, want it oversold by the late write", r)
			}
		})
	}
}
