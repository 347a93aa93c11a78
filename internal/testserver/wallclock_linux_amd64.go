package testserver

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// SetWallClock lets a process, from now on, see a wall clock that is ahead of the true one by whole
// seconds. Its steady clocks stay true.
//
// It is for programs of Go. These read clocks by code that the kernel maps into each process (the
// vDSO), and call no library that could be replaced. So that code is replaced, in this process alone. A kernel that
// maps other code, or lets nobody write it: [errors.ErrUnsupported].
func SetWallClock(pid int, ahead time.Duration) error {
	mem, at, err := findClock(pid)
	if err != nil {
		return fmt.Errorf("the wall clock of process %d: %w: %w", pid, errors.ErrUnsupported, err)
	}
	defer mem.Close()
	is, seconds := make([]byte, len(clockGettime)), binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second))
	if _, err := mem.ReadAt(is, at); err != nil {
		return err
	}
	if bytes.Equal(is, clockGettime) {
		_, err := mem.WriteAt(seconds, at+int64(len(is)))
		return err
	}
	for range 100 {
		written, err := replace(pid, mem, at, slices.Concat(clockGettime, seconds))
		if written || err != nil {
			return err
		}
	}
	return errors.New("it reads its clock all the time")
}

// clockGettime is clock_gettime(2) for clock_gettime of the vDSO: it adds the seconds behind it to
// CLOCK_REALTIME, which is 0.
var clockGettime = []byte{
	0xb8, 228, 0, 0, 0, // mov $228, %eax
	0x0f, 0x05, // syscall
	0x85, 0xff, // test %edi, %edi
	0x75, 10, // jne to ret
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov seconds(%rip), %rcx
	0x48, 0x01, 0x0e, // add %rcx, (%rsi)
	0xc3,       // ret
	0x90, 0x90, // so that the seconds are aligned
}

// findClock returns the memory of another process, and where in it clock_gettime of the vDSO begins.
func findClock(pid int) (mem *os.File, at int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, 0, err
	}
	var first, end int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			_, err = fmt.Sscanf(line, "%x-%x", &first, &end)
		}
	}
	if mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return nil, 0, err
	}
	var symbols []elf.Symbol
	file, err := elf.NewFile(io.NewSectionReader(mem, first, end-first))
	if err == nil {
		symbols, err = file.DynamicSymbols()
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if i < 0 || symbols[i].Size < uint64(len(clockGettime))+8 {
		mem.Close()
		return nil, 0, errors.Join(err, errors.New("it has no vDSO with a clock_gettime"))
	}
	return mem, first + int64(symbols[i].Value), nil
}

// replace writes the code while no thread is about to run it.
func replace(pid int, mem *os.File, at int64, code []byte) (written bool, err error) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return false, err
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	if err := stopped(pid); err != nil {
		return false, err
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		var pc int64 // the last field
		_, err = fmt.Sscanf(string(text[bytes.LastIndexByte(text, ' ')+1:]), "0x%x", &pc)
		if err != nil || at < pc && pc < at+int64(len(code)) {
			return false, err
		}
	}
	if err != nil || len(threads) == 0 {
		return false, errors.Join(errors.New("what its threads run is not to be seen"), errors.ErrUnsupported, err)
	}
	if _, err = mem.WriteAt(code, at); err != nil {
		return false, errors.Join(errors.ErrUnsupported, err)
	}
	return true, nil
}
