package world

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// Promise: a lab that is killed while its disk is frozen leaves no mount, though a thread of it waits for the disk.
func TestAKilledLabLeavesNoFrozenDisk(t *testing.T) {
	if dir := os.Getenv("INTERLOCK_LAB_FREEZES"); dir != "" {
		d := newDisk(dir)
		d.Freeze(3 * time.Second)
		go func() { _ = os.WriteFile(filepath.Join(d.dir, "file"), []byte("text"), 0o600) }()
		_, _ = os.Stdout.WriteString("frozen\n")
		select {}
	}
	if err := Disks(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	lab := exec.Command("unshare", "-m", os.Args[0], "-test.run", t.Name())
	lab.Env = append(os.Environ(), "INTERLOCK_LAB_FREEZES="+dir)
	out, err := lab.StdoutPipe()
	if err == nil {
		err = lab.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "frozen\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_ = lab.Process.Kill()
	for end := time.Now().Add(busy.Bound(time.Minute)); ; time.Sleep(100 * time.Millisecond) {
		loops, err := exec.Command("losetup", "-a").Output()
		if err == nil && !strings.Contains(string(loops), dir) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v: a loop device is left: %s", err, loops)
		}
	}
	_ = lab.Wait()
}
