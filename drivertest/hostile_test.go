package drivertest

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/drivertest/httplock"
)

var believed sync.Once

// hostile are worlds that break a rule which needs more than memory, by its name.
var hostile = map[string]func(testing.TB) World{
	"Repeater": exchanges(withRows, exchangetest.Found),
	"NoRights": func(t testing.TB) World { // everybody has all of them
		w := memory(t)
		w.NoRights = w.Open
		return w
	},
	"Member": func(t testing.TB) World { // one name in the records of another
		w := memory(t)
		w.Damages = func(string) []Damage {
			return []Damage{{"another name", func() error {
				d, err := w.Open(context.Background())
				if err != nil {
					return err
				}
				for q := range d.Queues(context.Background(), "z-well") {
					err = d.Ask(context.Background(), q.Name, q.Members[0].ID, driver.Force)
				}
				return err
			}}}
		}
		return w
	},
	"StoppedInAChange": func(t testing.TB) World { // a heartbeat of several queues waits for each
		var locked atomic.Bool
		m := mutant{renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			if locked.Load() && len(known) > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.plainRenew(ctx, known)
		}}
		w := m.breed(memory)(t)
		w.LockQueue = func(string) func() {
			locked.Store(true)
			return func() { locked.Store(false) }
		}
		return w
	},
	"OtherUser": func(t testing.TB) World { // writes through links
		w := memory(t)
		w.Shared = func(t testing.TB) Shared {
			folder := filepath.Join(t.TempDir(), "locks")
			file := filepath.Join(folder, "file")
			_ = os.Mkdir(folder, 0o700)
			_ = os.WriteFile(file, nil, 0o600)
			m := mutant{swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
				if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
					_ = os.WriteFile(file, s.Value, 0o600)
				}
				return d.Driver.Swap(ctx, s)
			}}
			return Shared{folder, m.breed(memory)(t).Open}
		}
		return w
	},
	"Impostor": overHTTP(mutant{open: func(d *broken, ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
		s, err := d.session(ctx, o)
		if err != nil {
			believed.Do(func() { // what was announced
				text := make([]byte, 400<<20)
				time.Sleep(100 * time.Millisecond)
				text[0] = 1
			})
		}
		return s, err
	}}),
	"Deaf": overHTTP(mutant{watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
		if strings.HasPrefix(name, "connection") {
			<-ctx.Done()
		}
		return d.Driver.Watch(ctx, name, after)
	}}),
	"SilentHost": func(t testing.TB) World { // waits for as long as its caller
		w := overHTTP(mutant{})(t)
		w.Via = func(ctx context.Context, _ func(string) string) (driver.Driver, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return w
	},
	"Mute": func(t testing.TB) World { // has another way to the server
		w := overHTTP(mutant{})(t)
		w.Via = func(ctx context.Context, _ func(string) string) (driver.Driver, error) { return w.Open(ctx) }
		return w
	},
}

// overHTTP is a server of package httplock, whose clients are broken.
func overHTTP(m mutant) func(testing.TB) World {
	return m.breed(func(t testing.TB) World {
		s := httptest.NewServer(httplock.NewServer())
		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
		addr := strings.TrimPrefix(s.URL, "http://")
		w := World{Via: func(ctx context.Context, at func(string) string) (driver.Driver, error) {
			d, err := OpenURL(ctx, "http://"+at(addr))
			if err != nil {
				return nil, err
			}
			return &broken{Driver: d, m: &m, n: newNotes()}, nil
		}}
		w.Open = func(ctx context.Context) (driver.Driver, error) { return OpenURL(ctx, s.URL) }
		return w
	})
}

// Promise: what is hostile is noticed by the rule of that name, which says which promise is broken.
func TestHostileWorldsFail(t *testing.T) {
	for name, world := range hostile {
		t.Run(name, func(t *testing.T) {
			r, ok := rules.Find(name)
			if !ok {
				t.Fatalf("there is no rule %s", name)
			}
			b := Backend{World: world, TTL: 500 * time.Millisecond, limit: 10 * time.Second, Small: true}
			failure := verdict(r, t, b, variants(r, "", "")[0])
			if !strings.Contains(failure, r.Says[0]) {
				t.Errorf("%s does not notice, or does not say which promise is broken: %q", name, failure)
			}
			t.Log(strings.SplitN(failure, "\n", 2)[0])
		})
	}
}
