package sqlitelock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Opening a file writes into no memory that is somebody else's, whatever there is in the
// memory that SQLite gets: a queue's name that another connection had bound became
// another one, whose tickets it then read and wrote.
func TestOpeningAFileWritesIntoNobodysMemory(t *testing.T) {
	somebodys = untouched
	address := binary.NativeEndian.AppendUint64(nil, uint64(uintptr(unsafe.Pointer(&somebodys))))

	// Memory that SQLite gives back is full of the address, and is given out again in
	// small pieces, after all small pieces that there were.
	const many = 16_000
	fill(t, many/10, bytes.Repeat(address, 128))
	leave := bind(t, many, bytes.Repeat(address, 2))
	defer leave()
	for range 5 {
		start(t, newFile(t))
		if somebodys != untouched {
			t.Fatalf("what has nothing to do with the file became %#x", somebodys)
		}
	}
}

// somebodys does not move, as what is on the stack does.
var somebodys uint64

const untouched = 0x5a5a5a5a5a5a5a5a

// fill takes memory for as many values, and gives it back.
func fill(t *testing.T, n int, value []byte) { bind(t, n, value)() }

// bind keeps as many copies of a value in SQLite's memory.
func bind(t *testing.T, n int, value []byte) (leave func()) {
	t.Helper()
	c := errtest.Must(sqlite.OpenConn(":memory:", sqlite.OpenReadWrite))(t)
	s, _, err := c.PrepareTransient(fmt.Sprintf("SELECT ?%d", n))
	noError(t, err)
	for i := range n {
		s.BindBytes(i+1, value)
	}
	return func() {
		s.Finalize()
		c.Close()
	}
}

// Who replaces the file by a link after it was looked at has none opened that the link leads to.
func TestNoLinkIsOpened(t *testing.T) {
	path := newFile(t)
	start(t, path)
	errtest.None(t, os.Symlink(path, path+".link"))
	c, err := openConn(path+".link", sqlite.OpenReadWrite)
	if err == nil {
		c.Close()
		t.Error("it was opened")
	}
}
