package guard

import (
	"bytes"
	"encoding/gob"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: whatever comes through the pipe to a guard, it is read without harm, and what is read
// as a config or an order is sent as such again.
func FuzzWire(f *testing.F) {
	for _, v := range []any{
		config{}, config{Path: "/bin/true", Args: []string{"true"}, Env: []string{"A=b"}, TTL: 1, Deadline: 2, Liveness: []uintptr{3}, GiveBack: []byte{4}},
		order{Kind: sendSignal, Signal: 15, Group: true}, order{Kind: -1, N: 1 << 40},
	} {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(v); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()/2])
	}
	f.Add([]byte{0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		var c config
		if gob.NewDecoder(bytes.NewReader(data)).Decode(&c) == nil {
			again[config](t, c)
		}
		var o order
		if gob.NewDecoder(bytes.NewReader(data)).Decode(&o) == nil {
			again[order](t, o)
		}
	})
}

func again[T any](t *testing.T, v T) {
	var b bytes.Buffer
	var got T
	errtest.None(t, gob.NewEncoder(&b).Encode(v))
	errtest.None(t, gob.NewDecoder(&b).Decode(&got))
}
