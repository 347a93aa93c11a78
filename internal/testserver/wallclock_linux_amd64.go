package testserver

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
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
	v, err := openVDSO(pid)
	if err != nil {
		return fmt.Errorf("the wall clock of process %d: %w: %w", pid, errors.ErrUnsupported, err)
	}
	defer v.mem.Close()
	if err := v.set(int64(ahead / time.Second)); err != nil {
		return fmt.Errorf("the wall clock of process %d: %w", pid, err)
	}
	return nil
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

// vdso is that of another process.
type vdso struct {
	pid int
	mem *os.File
	at  uint64 // where clock_gettime begins
	end uint64 // of what is replaced
}

func openVDSO(pid int) (*vdso, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var first, end uint64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			_, err = fmt.Sscanf(line, "%x-%x", &first, &end)
		}
	}
	if err != nil || end == 0 {
		return nil, errors.Join(errors.New("it has no vDSO"), err)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	v := &vdso{pid: pid, mem: mem}
	if v.at, err = v.find(first, end-first); err != nil {
		mem.Close()
		return nil, err
	}
	v.end = v.at + uint64(len(clockGettime)) + 8
	return v, nil
}

func (v *vdso) find(first, size uint64) (uint64, error) {
	image := make([]byte, size)
	if _, err := v.mem.ReadAt(image, int64(first)); err != nil {
		return 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if i < 0 || symbols[i].Size < uint64(len(clockGettime))+8 {
		return 0, errors.New("its vDSO has no clock_gettime")
	}
	return first + symbols[i].Value, nil
}

func (v *vdso) set(seconds int64) error {
	is := make([]byte, len(clockGettime))
	if _, err := v.mem.ReadAt(is, int64(v.at)); err != nil {
		return err
	}
	tail := binary.LittleEndian.AppendUint64(nil, uint64(seconds))
	if bytes.Equal(is, clockGettime) {
		_, err := v.mem.WriteAt(tail, int64(v.at)+int64(len(is)))
		return err
	}
	for range 100 {
		written, err := v.replace(append(slices.Clone(clockGettime), tail...))
		if written || err != nil {
			return err
		}
	}
	return errors.New("it reads its clock all the time")
}

// replace writes the code while no thread is about to run it.
func (v *vdso) replace(code []byte) (written bool, err error) {
	if err := syscall.Kill(v.pid, syscall.SIGSTOP); err != nil {
		return false, err
	}
	defer syscall.Kill(v.pid, syscall.SIGCONT)
	if err := stopped(v.pid); err != nil {
		return false, err
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", v.pid))
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		var pc uint64 // the last field
		_, err = fmt.Sscanf(string(text[bytes.LastIndexByte(text, ' ')+1:]), "0x%x", &pc)
		if err != nil || v.at < pc && pc < v.end {
			return false, err
		}
	}
	if err != nil || len(threads) == 0 {
		return false, errors.Join(errors.New("what its threads run is not to be seen"), errors.ErrUnsupported, err)
	}
	if _, err = v.mem.WriteAt(code, int64(v.at)); err != nil {
		return false, errors.Join(errors.ErrUnsupported, err)
	}
	return true, nil
}
