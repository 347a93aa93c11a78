package interlock

import (
	"fmt"
	"hash/fnv"

	"github.com/interlock-go/interlock/driver"
)

// Striped is one lock cut into n, so that work on different keys rarely waits.
// All users of a name must agree on n: a key's stripe depends on it.
type Striped struct{ stripes []*Lock }

const maxStripes = 1 << 16

// Striped makes a lock of n stripes, 1 to 65536, the mutexes name/0 to name/n-1.
func (c *Client) Striped(name string, n int, opts ...Option) *Striped {
	s := &Striped{}
	for i := range max(1, min(n, maxStripes)) {
		l := c.Mutex(fmt.Sprintf("%s/%d", name, i))
		if name == "" {
			l.wrong = driver.CheckName("")
		} else if n < 1 || n > maxStripes {
			l.wrong = fmt.Errorf("%d stripes: 1 to %d are possible", n, maxStripes)
		}
		s.stripes = append(s.stripes, l.With(opts...))
	}
	return s
}

// For returns the stripe of a key: the FNV-1a hash of the key, modulo n, the
// same in every process and version.
func (s *Striped) For(key string) *Lock {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return s.stripes[h.Sum64()%uint64(len(s.stripes))]
}

// Stripe returns stripe i, 0 <= i < Len.
func (s *Striped) Stripe(i int) *Lock { return s.stripes[i] }

// Len is the number of stripes.
func (s *Striped) Len() int { return len(s.stripes) }
