package filelock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// watch is told by the kernel (inotify) when files are closed: those that other programs have
// locked, and those of sessions. No other news of a lock comes without a thread that waits for it.
type watch struct {
	mu     sync.Mutex
	file   *os.File // nil: nothing is watched
	fd     int      // of the file
	queues map[int32]string
	loop   sync.WaitGroup
}

// start watches until stop. For each file that was closed it calls closed: with the ID of a
// session, or for a queue that was added. A user may have few watches (128 by default, one for each
// client): a client that has none looks again and again.
func (w *watch) start(lives place, closed func(queue, session string)) error {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if errors.Is(err, syscall.EMFILE) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fd, w.queues = fd, map[int32]string{}
	f := os.NewFile(uintptr(fd), "inotify")
	// Files of sessions are opened for writing by those alone whom they belong to.
	folder, err := lives.Root.Open(".")
	if err == nil {
		_, err = w.of(folder, syscall.IN_CLOSE_WRITE)
		folder.Close()
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("inotify: %w", err)
	}
	w.file = f
	w.loop.Go(func() { w.run(f, closed) })
	return nil
}

func (w *watch) of(file *os.File, events uint32) (int, error) {
	return syscall.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", file.Fd()), events)
}

func (w *watch) stop() {
	w.mu.Lock()
	if w.file != nil {
		w.file.Close()
	}
	w.file = nil
	w.mu.Unlock()
	w.loop.Wait()
}

// add watches the file of a queue until it is closed once.
func (w *watch) add(file *os.File, queue string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return false
	}
	n, err := w.of(file, syscall.IN_CLOSE|syscall.IN_ONESHOT)
	if err == nil {
		w.queues[int32(n)] = queue
	}
	return err == nil
}

// sees reports whether files are watched.
func (w *watch) sees() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.file != nil
}

func (w *watch) run(f *os.File, closed func(queue, session string)) {
	data := make([]byte, 16<<10)
	for {
		n, err := f.Read(data)
		if err != nil {
			return
		}
		for rest := data[:n]; len(rest) >= syscall.SizeofInotifyEvent; {
			ev := *(*syscall.InotifyEvent)(unsafe.Pointer(&rest[0]))
			name := rest[syscall.SizeofInotifyEvent : syscall.SizeofInotifyEvent+ev.Len]
			rest = rest[syscall.SizeofInotifyEvent+ev.Len:]
			if ev.Mask&syscall.IN_CLOSE == 0 {
				continue
			}
			// The kernel says so shortly before it unlocks the file.
			time.Sleep(100 * time.Microsecond)
			w.mu.Lock()
			queue := w.queues[ev.Wd]
			delete(w.queues, ev.Wd)
			w.mu.Unlock()
			closed(queue, string(bytes.TrimRight(name, "\x00")))
		}
	}
}
