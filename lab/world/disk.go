package world

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"
)

// A Disk is a file system of its own, in a file. It can be full, stand still, and lose its power.
type Disk struct {
	dir, image string
	n          int // how often its power has failed
}

const own = "INTERLOCK_LAB_MOUNTS"

// Disks says why this machine lets no program have a disk of its own.
func Disks() (err error) {
	for _, program := range []string{"unshare", "mkfs.ext4", "mount", "fsfreeze"} {
		_, missing := exec.LookPath(program)
		err = errors.Join(err, missing)
	}
	switch {
	case err != nil:
		return err
	case os.Getuid() != 0:
		return errors.New("only root can mount a disk of its own")
	}
	return command("unshare", "-m", "test", "-e", "/dev/loop-control")
}

// Apart begins this program again, with mounts that end with it, if the machine lets it.
func Apart() {
	path, err := exec.LookPath("unshare")
	if os.Getenv(own) != "" || err != nil || Disks() != nil {
		return
	}
	_ = os.Setenv(own, "yes")
	_ = syscall.Exec(path, append([]string{path, "-m"}, os.Args...), os.Environ())
}

func newDisk(dir string) *Disk {
	d := &Disk{dir: filepath.Join(dir, "disk"), image: filepath.Join(dir, "image0")}
	must(errors.Join(os.Mkdir(d.dir, 0o711), os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 2<<30)))
	must(command("mount", "-t", "tmpfs", "-o", "ro", "none", d.dir)) // while the power is off
	must(command("mkfs.ext4", "-q", "-F", "-m", "0", d.image))
	must(d.mount())
	must(os.Chmod(d.dir, 0o711))
	return d
}

func (d *Disk) mount() error { return command("mount", "-o", "loop", d.image, d.dir) }

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// Fill takes all the space that is left, until end is called.
func (d *Disk) Fill() (end func()) {
	path := filepath.Join(d.dir, "filler")
	var st syscall.Statfs_t
	must(syscall.Statfs(d.dir, &st))
	_ = command("fallocate", "-l", fmt.Sprint(int64(st.Bavail)*st.Bsize-1<<20), path)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(err)
	for ; err == nil; _, err = f.Write(make([]byte, 4096)) {
	}
	_ = f.Close()
	return func() { must(os.Remove(path)) }
}

// Freeze lets no write through for a time, and end waits until that is over. A process of its own thaws the disk, since
// this one may be killed meanwhile, or stand still: to the Go runtime a thread that waits for the disk because it has
// written to a file in its memory, as SQLite does, looks busy. The next collection of garbage waits for it, and all
// goroutines for that.
func (d *Disk) Freeze(length time.Duration) (end func()) {
	script := exec.Command("sh", "-ec", `fsfreeze -f "$0"; echo; sleep "$1"; fsfreeze -u "$0"`, d.dir,
		fmt.Sprint(length.Seconds()))
	script.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := script.StdoutPipe()
	must(err)
	must(script.Start())
	_, err = out.Read(make([]byte, 1))
	must(err)
	return func() { must(script.Wait()) }
}

// Fail ends all writes: what the disk has not confirmed is lost. What is open stays so, and finds nothing but errors.
func (d *Disk) Fail() {
	f, err := os.Open(d.dir)
	must(err)
	defer f.Close()
	flag := uint32(2) // the journal is not written either
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), 0x8004587d, uintptr(unsafe.Pointer(&flag))); e != 0 {
		panic(e)
	}
}

// Return brings the disk back with what it had.
func (d *Disk) Return() {
	d.n++
	was := d.image
	d.image = fmt.Sprint(was[:len(was)-len(fmt.Sprint(d.n-1))], d.n)
	must(command("cp", "--sparse=always", was, d.image))
	must(command("umount", "-l", d.dir)) // it may be open still
	must(os.Remove(was))
	must(d.mount())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
