package zkpeer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
)

// Args are what an operation needs besides its name.
type Args map[string]any

// Error is what the library of the peer has raised.
type Error struct {
	Op   string
	Text string // the error's name, and what it says
}

func (e *Error) Error() string { return e.Op + ": " + e.Text }

// line is what a peer says: an answer or an event.
type line struct {
	answer
	ID int64 `json:"id"`
	Event
}

type answer struct {
	Value json.RawMessage `json:"value"`
	Error *string         `json:"error"`
}

// Call has the thread do an operation, and waits until it is done. The value goes
// into result, a pointer, unless that is nil. If ctx ends earlier, the peer is
// killed.
func (t *Thread) Call(ctx context.Context, op string, args Args, result any) error {
	p := t.session.peer
	request := maps.Clone(args)
	if request == nil {
		request = Args{}
	}
	request["op"], request["session"], request["thread"] = op, t.session.name, t.name
	got := make(chan answer, 1)
	if err := p.send(request, got); err != nil {
		return err
	}
	select {
	case a := <-got:
		return a.into(op, result)
	case <-p.process.done:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s: %s: killed: %w", p.what, op, context.Cause(ctx))
	}
	select {
	case a := <-got: // the last that it has said
		return a.into(op, result)
	default:
		return p.gone(op)
	}
}

// brief calls what does not wait.
func (t *Thread) brief(op string, args Args, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), slow)
	defer cancel()
	return t.Call(ctx, op, args, result)
}

func (a answer) into(op string, result any) error {
	if a.Error != nil {
		return &Error{op, *a.Error}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Value, result)
}

func (p *Peer) send(request Args, got chan answer) error {
	p.mu.Lock()
	p.last++
	request["id"] = p.last
	b, err := json.Marshal(request)
	if err != nil {
		p.mu.Unlock()
		return err
	}
	p.waiting[p.last] = got
	_, err = p.process.in.Write(append(b, '\n'))
	p.mu.Unlock()
	if err != nil {
		p.Kill() // the pipe is broken: it is about to end anyway
		return p.gone(fmt.Sprint(request["op"]))
	}
	return nil
}

// gone is the error of a peer that has ended by itself, or was killed.
func (p *Peer) gone(op string) error {
	return fmt.Errorf("%s: %s: the peer has ended (%v)\n%s", p.what, op, p.process.cmd.ProcessState, p.Log())
}

// read takes in what the peer says.
func (p *Peer) read(b []byte) {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		p.note(string(b) + "\n") // the last words of a JVM, for example
		return
	}
	if l.Event.Name != "" {
		p.session(l.Event.Session).happened(l.Event)
		return
	}
	p.mu.Lock()
	got := p.waiting[l.ID]
	delete(p.waiting, l.ID)
	p.mu.Unlock()
	if got != nil {
		got <- l.answer
	}
}
