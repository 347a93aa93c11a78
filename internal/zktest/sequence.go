package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SetSequence makes n the number of the next sequential node under path, which
// has to exist and to be at a smaller number. No client could do that: the
// server is killed, gets it written into its log, and starts again; sessions
// survive. It is for a server alone.
func (s *Server) SetSequence(path string, n int32) {
	s.Helper()
	if s.peer != nil {
		s.Fail("set the sequence of %s: the server belongs to an ensemble", path)
	}
	s.Kill()
	s.Check("set the sequence of "+path, s.logSequence(path, n))
	s.Restart()
}

// logSequence logs that a node was created under path as the n-th, and deleted:
// what the log says about the parent goes into the parent.
func (s *Server) logSequence(path string, n int32) error {
	logs, err := filepath.Glob(s.Path("data/version-2/log.*"))
	if err != nil {
		return err
	}
	name, last := "", uint64(0)
	for _, log := range logs {
		_, hex, _ := strings.Cut(filepath.Base(log), ".")
		if first, err := strconv.ParseUint(hex, 16, 64); err == nil && first >= last {
			name, last = log, first
		}
	}
	if name == "" {
		return errors.New("nothing was ever written")
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	end, zxid, err := endOfLog(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	child := strings.TrimSuffix(path, "/") + "/set-sequence"
	const opCreate, opDelete = 1, 2
	create := record{}.string(child).int32(-1). // no data
							int32(1).int32(31).string("world").string("anyone").
							bool(false).int32(n)
	entries := append(entry(zxid+1, opCreate, create), entry(zxid+2, opDelete, record{}.string(child))...)
	_, err = file.WriteAt(entries, end)
	return err
}

// endOfLog finds the end of the entries of a log, after which there is nothing
// or zeros, and the zxid of the last one.
func endOfLog(r io.Reader) (end int64, zxid uint64, err error) {
	var start [16]byte // magic, version, database
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return 0, 0, err
	}
	if !bytes.HasPrefix(start[:], []byte("ZKLG\x00\x00\x00\x02")) {
		return 0, 0, errors.New("not a log that is known here")
	}
	for end = int64(len(start)); ; {
		var head [12]byte // checksum and length
		_, err := io.ReadFull(r, head[:])
		size := int64(binary.BigEndian.Uint32(head[8:]))
		if err == io.EOF || err == nil && size == 0 {
			return end, zxid, nil
		}
		if err != nil {
			return 0, 0, err
		}
		body := make([]byte, size+1) // and a mark
		if _, err := io.ReadFull(r, body); err != nil {
			return 0, 0, err
		}
		zxid = binary.BigEndian.Uint64(body[12:]) // after session and request
		end += int64(len(head)) + size + 1
	}
}

// entry is one transaction in the log.
func entry(zxid uint64, op int32, txn record) []byte {
	body := record{}.int64(0).int32(0).int64(int64(zxid)).int64(0).int32(op) // by nobody, at no time
	body = append(body, txn...)
	e := record{}.int64(int64(adler32.Checksum(body))).int32(int32(len(body)))
	return append(append(e, body...), 'B')
}

// record is data as ZooKeeper writes it.
type record []byte

func (r record) int32(n int32) record { return binary.BigEndian.AppendUint32(r, uint32(n)) }
func (r record) int64(n int64) record { return binary.BigEndian.AppendUint64(r, uint64(n)) }

func (r record) string(s string) record { return append(r.int32(int32(len(s))), s...) }

func (r record) bool(b bool) record {
	if b {
		return append(r, 1)
	}
	return append(r, 0)
}
