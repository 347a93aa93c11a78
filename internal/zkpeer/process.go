package zkpeer

import (
	"bufio"
	"io"
	"os"
	"os/exec"

	"github.com/interlock-go/interlock/internal/testserver"
)

// process is a child that is written to and read from by lines.
type process struct {
	*testserver.Process
	cmd  *exec.Cmd
	in   io.Writer
	done chan struct{} // closed when it has ended and all is read
}

// longest is how long a line may be: a contest answers with all its gaps.
const longest = 64 << 20

// start runs the command and hands each line that it says to read.
func start(cmd *exec.Cmd, read func(line []byte)) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of the command would be closed when it ends, read or not.
	out, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = said
	child, err := testserver.Begin(cmd)
	_ = said.Close() // the process has its own
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	p := &process{child, cmd, in, make(chan struct{})}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, longest)
		for lines.Scan() {
			read(lines.Bytes())
		}
		child.Kill() // whoever says nothing more is no use
		_ = out.Close()
		close(p.done)
	}()
	return p, nil
}

func (p *process) kill() {
	p.Kill()
	<-p.done
}
