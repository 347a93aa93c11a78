package guard

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
)

// share turns an instant of this process into one of the clock that all
// processes of this machine share. On Linux the two are the same.
func share(t driver.Instant) driver.Instant { return t }

// now reads the shared clock.
func now() driver.Instant { return driver.Now() }

// alarm rings at an instant of the shared clock; time during which the machine
// is suspended counts.
type alarm struct {
	fd int
	C  chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{fd: fd, C: make(chan struct{}, 1)}
	f := os.NewFile(uintptr(fd), "timerfd")
	go func() {
		for buf := make([]byte, 8); ; {
			if _, err := f.Read(buf); err != nil {
				// Cannot happen to a timer that is never closed. Ringing too often is
				// harmless, ringing never is not.
				time.Sleep(10 * time.Millisecond)
			}
			select {
			case a.C <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// set makes the alarm ring at t, at once if that is past.
func (a *alarm) set(t driver.Instant) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(t, 1)))}
	return unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
}
