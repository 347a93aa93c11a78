//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// The file of a row begins with a page of four slots. A slot is a head, which names a version of the
// row, and the text of that version, or where in the file it is, if it is long. The row is the
// newest version that is whole. A transaction writes an older slot; so a crash at any byte leaves
// the old row or the new one.
//
// Two slots are for versions that outlast a power loss. No other version is written over them, so
// that they are whole even if none of the others is.
const (
	slots    = 4 // the last two are durable
	slotSize = 1024
	pageSize = slots * slotSize
	headSize = 40
)

// head is of a slot.
type head struct {
	version uint64 // 0: the slot is empty
	at      uint64 // where the text begins
	size    uint64 // of the text
	boot    uint64 // of the machine, when it was written
	sums    uint64 // of the head, and of the text
}

// page is the first part of the file of a row, as it was read last.
type page struct {
	handle
	data [pageSize]byte
	row  int    // the slot that has the row; -1: there is none
	long []byte // room for a text that is not in the page
}

func (p *page) head(slot int) (h head) {
	b := p.data[slot*slotSize:]
	for i, v := range h.fields() {
		*v = binary.LittleEndian.Uint64(b[8*i:])
	}
	return h
}

func (h *head) fields() [5]*uint64 { return [5]*uint64{&h.version, &h.at, &h.size, &h.boot, &h.sums} }

// put writes the head at the beginning of b.
func (h head) put(b []byte) {
	for i, v := range h.fields() {
		binary.LittleEndian.PutUint64(b[8*i:], *v)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is that of the other fields of a head, and, in the upper half, of the text.
func sum(head, text []byte) uint64 {
	return uint64(crc32.Checksum(head[:headSize-8], castagnoli)) | uint64(crc32.Checksum(text, castagnoli))<<32
}

// read returns the text of the row, until the next write; nil if there is none. Boot is that of the
// machine: what was not durable may be damaged by a power loss, and then there is no row.
func (p *page) read(boot uint64) (text []byte, err error) {
	n, err := p.file.ReadAt(p.data[:], 0)
	if errors.Is(err, io.EOF) {
		if err = rows.ErrDamaged; n == 0 { // nobody has written the page yet
			clear(p.data[:])
			err = p.file.Truncate(pageSize)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.row, text = p.newest(0, 1, 2, 3); p.row >= 0 {
		return text, nil
	}
	torn := 0
	for slot := range slots {
		h, b := p.head(slot), p.data[slot*slotSize:(slot+1)*slotSize]
		older := h.boot != boot && uint32(h.sums) == uint32(sum(b, nil))
		if !older && !bytes.Equal(b, make([]byte, slotSize)) {
			torn++
		}
	}
	if torn > 1 { // one may be the first version of all, cut short
		return nil, rows.ErrDamaged
	}
	return nil, nil
}

// newest finds the newest version that is whole, among these slots; -1: there is none.
func (p *page) newest(among ...int) (slot int, text []byte) {
	version := func(slot int) uint64 { return binary.LittleEndian.Uint64(p.data[slot*slotSize:]) }
	slices.SortFunc(among, func(a, b int) int { return cmp.Compare(version(b), version(a)) })
	for _, slot := range among {
		if text, whole := p.text(slot); whole && version(slot) > 0 {
			return slot, text
		}
	}
	return -1, nil
}

// text is that of a slot, if it is whole.
func (p *page) text(slot int) (text []byte, whole bool) {
	h, b := p.head(slot), p.data[slot*slotSize:(slot+1)*slotSize]
	switch {
	case h.at == uint64(slot*slotSize+headSize) && h.size <= slotSize-headSize:
		text = b[headSize : headSize+h.size]
	case h.at < pageSize || h.at > farthest || h.size > maxRow:
		return nil, false
	default:
		p.long = slices.Grow(p.long[:0], int(h.size))
		text = p.long[:h.size]
		if _, err := p.file.ReadAt(text, int64(h.at)); err != nil {
			return nil, false
		}
	}
	return text, h.sums == sum(b, text)
}

// maxRow is the size of the longest row: whoever shares the directory can lengthen a file by any number of bytes.
const maxRow = 64 << 20

// farthest is more than where any text begins.
const farthest = 1 << 40

// writeAt is replaced by tests.
var writeAt = (*os.File).WriteAt

// write makes data the row. Data begins with room for a head, and the text follows.
func (p *page) write(data []byte, boot uint64, durable bool) error {
	h := head{version: 1, size: uint64(len(data) - headSize), boot: boot}
	if p.row >= 0 {
		h.version += p.head(p.row).version
	}
	slot := p.target(durable)
	start := int64(slot * slotSize)
	h.at = uint64(start + headSize)
	rest := data[headSize:]
	if len(data) > slotSize {
		h.at = p.free(slot, h.size)
		if _, err := writeAt(p.file, rest, int64(h.at)); err != nil {
			return err
		}
		data = data[:headSize]
	}
	h.put(data)
	h.sums = sum(data, rest)
	h.put(data)
	if _, err := writeAt(p.file, data, start); err != nil {
		return err
	}
	if durable {
		folder, err := p.root.Open(".")
		if err != nil {
			return err
		}
		defer folder.Close()
		return errors.Join(p.file.Sync(), folder.Sync())
	}
	return nil
}

// target is the slot for the next version. It is not that of the row, nor that of the newest durable
// version.
func (p *page) target(durable bool) int {
	first, kept := 0, p.row
	if durable {
		first = slots / 2
		kept, _ = p.newest(2, 3)
	}
	if kept == first {
		return first + 1
	}
	return first
}

// free finds a place for a long text, where none is of the row, nor of another durable version.
func (p *page) free(target int, size uint64) uint64 {
	at := uint64(pageSize)
	for n := range slots * slots { // each that is kept may move it once, in any order
		slot := n % slots
		h := p.head(slot)
		kept := slot == p.row || slot >= slots/2 && slot != target
		if kept && h.at < at+size && at < h.at+h.size && h.at+h.size < farthest {
			at = h.at + h.size
		}
	}
	return at
}
