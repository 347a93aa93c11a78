package zktest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SetSequence makes n the number of the next sequential node under path, which
// has to exist and to be at a smaller number. No client could do that: the
// server is killed, gets it written into its log, and starts again; sessions
// survive. It is for a server alone.
func (s *Server) SetSequence(path string, n int32) {
	s.Helper()
	s.Kill()
	s.Check("set the sequence of "+path, s.logSequence(path, n))
	s.Restart()
}

// logSequence logs that a node was created under path as the n-th, and deleted:
// what the log says about the parent goes into the parent.
func (s *Server) logSequence(path string, n int32) error {
	logs, _ := filepath.Glob(s.Path("data/version-2/log.*"))
	if len(logs) == 0 || s.peer != nil {
		return errors.New("it has no log, or is one of an ensemble")
	}
	name := slices.MaxFunc(logs, func(a, b string) int { return cmp.Compare(first(a), first(b)) })
	log, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(log, []byte("ZKLG\x00\x00\x00\x02")) {
		return errors.New(name + ": not a log that is known here")
	}
	// After the head come entries: checksum, length, body, and a mark; and then nothing or zeros.
	end, zxid := 16, uint64(0)
	for len(log) >= end+12 {
		size := int(binary.BigEndian.Uint32(log[end+8:]))
		if size == 0 {
			break
		}
		zxid = binary.BigEndian.Uint64(log[end+12+12:]) // after session and request
		end += 12 + size + 1
	}
	child := strings.TrimSuffix(path, "/") + "/set-sequence"
	const opCreate, opDelete = 1, 2
	create := record{}.string(child).int32(-1). // no data
							int32(1).int32(31).string("world").string("anyone")
	create = append(create, 0).int32(n) // not ephemeral
	entries := append(entry(zxid+1, opCreate, create), entry(zxid+2, opDelete, record{}.string(child))...)
	return os.WriteFile(name, append(log[:end], entries...), 0o600)
}

// first is the number of the first transaction in a log.
func first(log string) uint64 {
	_, hex, _ := strings.Cut(filepath.Base(log), ".")
	n, _ := strconv.ParseUint(hex, 16, 64)
	return n
}

// entry is one transaction in the log.
func entry(zxid uint64, op int32, txn record) []byte {
	body := record{}.int64(0).int32(0).int64(int64(zxid)).int64(0).int32(op) // of no session, at no time
	body = append(body, txn...)
	e := record{}.int64(int64(adler32.Checksum(body))).int32(int32(len(body)))
	return append(append(e, body...), 'B')
}

// record is data as ZooKeeper writes it.
type record []byte

func (r record) int32(n int32) record   { return binary.BigEndian.AppendUint32(r, uint32(n)) }
func (r record) int64(n int64) record   { return binary.BigEndian.AppendUint64(r, uint64(n)) }
func (r record) string(s string) record { return append(r.int32(int32(len(s))), s...) }
