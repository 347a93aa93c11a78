package conn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// wire looks at what a connection of our own sends and receives, before the client of Redis does. Who
// answers may be no Redis, or a hostile one, and that client (1.0.79) takes its word: for a length
// that it then allocates, for values in values that it then reads by recursion. An answer to nothing
// ends the program by a panic of a goroutine that is not ours. So the connection ends here, with
// an error, at the first byte of such a message.
//
// Next to nothing is copied, and what a length announces is passed over.
type wire struct {
	mu       sync.Mutex
	requests frames
	replies  frames
	pending  []request   // what was sent and not answered yet
	room     [32]request // where pending begins
	since    time.Time   // when the first of it was sent, or something came last
	skips    int         // of a subscription to several channels: so many answers follow
	resp2    bool        // it was greeted with HELLO 2 only: news arrive as arrays
	ended    bool        // the end of a subscription was refused; the answer to PING follows
	greeted  bool        // the first answer was received
	refusal  Refusal     // that answer, if it is an error and the only one
	bad      error
}

// request is a command that waits for its answer.
type request struct {
	channels int  // of a subscription; 0: it is none
	ends     bool // one that ends some: it has no answer but an error, and PING follows
}

const (
	maxGreeting = 64 << 10 // bytes of the first answer; of an array, each element counts as elementSize
	maxMessage  = 64 << 20 // bytes of any other: a queue of a hundred thousand takes 40 MiB
	maxLine     = 64 << 10 // bytes of what has no length of its own: a number, an error
	maxNested   = 16
	elementSize = 40 // what the client of Redis allocates for it
)

// sent takes note of commands, before they are sent.
func (w *wire) sent(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 {
		w.since, w.pending = time.Now(), w.room[:0]
	}
	_ = w.requests.scan(b, 1<<62, func(m *message) error {
		name := strings.ToUpper(string(m.word(0)))
		if name == "HELLO" && !w.greeted && len(w.pending) <= 1 { // one may stand before it: AUTH
			w.resp2 = string(m.word(1)) == "2"
		}
		r := request{ends: strings.HasSuffix(name, "UNSUBSCRIBE")}
		if strings.HasSuffix(name, "SUBSCRIBE") && !r.ends {
			r.channels = m.elements - 1
		}
		w.pending = append(w.pending, r)
		return nil
	})
}

// received looks at what has come, and reports why nothing of it may be read.
func (w *wire) received(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(b) > 0 {
		w.since = time.Now()
	}
	for w.bad == nil && len(b) > 0 {
		most := int64(maxMessage)
		if !w.greeted {
			most = maxGreeting
		}
		var n int
		n, w.bad = w.replies.one(b, most, w.answered)
		b = b[n:]
	}
	if w.bad != nil {
		return fmt.Errorf("the connection was closed, since this is not what Redis answers: %w", w.bad)
	}
	return nil
}

var (
	errUnasked = errors.New("an answer to nothing that was asked")
	errQueued  = errors.New("a subscription that waits for EXEC")
)

// cut is why a connection has ended: a server that is full, or protected, says so and hangs up.
func (w *wire) cut(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refusal == "" || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return w.refusal
}

// Refusal is what a server says before it hangs up.
type Refusal string

func (r Refusal) Error() string { return "the server has closed the connection: " + string(r) }

func (w *wire) isSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.greeted
}

// owes reports whether nothing has come for so long although an answer is due.
func (w *wire) owes(long time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending) > 0 && time.Since(w.since) > long
}

// answered notes a message that was received as a whole.
func (w *wire) answered(m *message) error {
	kind := func(suffix string) bool { return bytes.HasSuffix(m.word(0), []byte(suffix)) }
	w.refusal = ""
	if m.typ == '-' && !w.greeted {
		w.refusal = Refusal(m.word(0))
	}
	w.greeted = true
	push := m.typ == '>' || w.resp2 && m.typ == '*' && (kind("subscribe") || kind("message"))
	switch {
	case push && kind("unsubscribe"):
		if w.skips > 0 {
			return errUnasked
		}
		return nil
	case push && kind("subscribe") && w.skips > 0:
		w.skips--
		return nil
	case push && kind("subscribe"):
		if len(w.pending) == 0 || w.pending[0].channels == 0 {
			return errUnasked
		}
		w.skips = w.pending[0].channels - 1
	case push:
		return nil
	case len(w.pending) == 0:
		return errUnasked
	case w.pending[0].channels > 0 && string(m.word(0)) == "QUEUED":
		return errQueued
	case w.ended && !m.isPong(), w.pending[0].ends && m.isPong() && len(w.pending) == 1:
		return errUnasked
	case w.pending[0].ends && m.isPong():
		w.pending = w.pending[1:]
	default:
		w.ended = w.pending[0].ends
	}
	w.pending = w.pending[1:]
	return nil
}

// message is what is kept of one: its type, how many elements it has, and how the first two begin, or
// itself if it has no elements.
type message struct {
	typ      byte
	elements int
	words    [2]struct {
		text [192]byte
		n    int
	}
}

// isPong reports whether the client of Redis takes it for an answer to PING, be it a refusal.
func (m *message) isPong() bool {
	text := string(m.word(0))
	if m.typ == '-' {
		return strings.HasPrefix(text, "LOADING") || strings.HasPrefix(text, "BUSY") || strings.Contains(text, "'ping'")
	}
	return strings.EqualFold(text, "PONG")
}

func (m *message) word(i int) []byte { return m.words[i].text[:m.words[i].n] }

// frames finds where messages of the protocol end.
type frames struct {
	message
	line  []byte         // what has come of a line without its end
	skip  int            // bytes of a text that are still to come, and of its end
	text  int            // how many of them are not the end
	seen  int            // elements of the message that have come, but for those within elements
	left  [maxNested]int // elements that are still to come, for each array that is open
	depth int
	size  int64 // of the message, so far
}

// scan reads messages and hands over each. The last one may be incomplete.
func (f *frames) scan(b []byte, most int64, each func(*message) error) error {
	for len(b) > 0 {
		n, err := f.one(b, most, each)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// one reads up to the end of a message, or all, and returns how much that was.
func (f *frames) one(b []byte, most int64, each func(*message) error) (n int, err error) {
	for n < len(b) {
		var whole bool // an element has ended
		switch {
		case f.skip > 0:
			k := min(f.skip, len(b)-n)
			f.note(b[n : n+min(k, f.text)])
			f.text -= min(k, f.text)
			n, f.skip = n+k, f.skip-k
			whole = f.skip == 0
		default:
			line := b[n:]
			i := bytes.IndexByte(line, '\n')
			if i >= 0 {
				line = line[:i+1]
			}
			n, f.size = n+len(line), f.size+int64(len(line))
			switch {
			case len(f.line)+len(line) > maxLine:
				return n, errors.New("a line without an end")
			case i < 0:
				f.line = append(f.line, line...)
				return n, nil
			case len(f.line) > 0:
				line, f.line = append(f.line, line...), nil
			}
			if whole, err = f.endOfLine(line); err != nil {
				return n, err
			}
		}
		if f.size > most {
			return n, fmt.Errorf("a message of more than %d bytes", most)
		}
		if !whole {
			continue
		}
		if f.depth <= 1 {
			f.seen++
		}
		for f.depth > 0 {
			if f.left[f.depth-1]--; f.left[f.depth-1] > 0 {
				break
			}
			if f.depth--; f.depth == 1 {
				f.seen++
			}
		}
		if f.depth == 0 {
			err = each(&f.message)
			f.message, f.seen, f.size = message{}, 0, 0
			return n, err
		}
	}
	return n, nil
}

// note keeps how an element begins.
func (f *frames) note(text []byte) {
	if f.depth <= 1 && f.seen < len(f.words) {
		w := &f.words[f.seen]
		w.n += copy(w.text[w.n:], text)
	}
}

var errNonsense = errors.New("a length or a type that there is not")

// endOfLine reports whether an element has ended with a line.
func (f *frames) endOfLine(line []byte) (whole bool, err error) {
	typ := line[0]
	if f.depth == 0 {
		f.typ = typ
	}
	switch typ {
	case '+', '-', ':', ',', '(':
		f.note(bytes.TrimRight(line[1:], "\r\n"))
		return true, nil
	case '_', '#':
		if len(line) != map[byte]int{'_': 3, '#': 4}[typ] {
			return false, errNonsense
		}
		return true, nil
	case '$', '!', '=', '*', '~', '%', '>':
	default:
		return false, errNonsense
	}
	if string(line[1:]) == "-1\r\n" && (typ == '$' || typ == '*') {
		return true, nil
	}
	const digits = 9
	if len(line) < 4 || len(line) > 3+digits || line[len(line)-2] != '\r' {
		return false, errNonsense
	}
	n := 0
	for _, c := range line[1 : len(line)-2] {
		if c < '0' || c > '9' {
			return false, errNonsense
		}
		n = 10*n + int(c-'0')
	}
	switch typ {
	case '$', '!', '=':
		f.text, f.skip = n, n+2
		f.size += int64(n)
		return false, nil
	case '%':
		n *= 2
	}
	if f.depth == 0 {
		f.elements = n
	}
	if n == 0 {
		return true, nil
	}
	if typ == '>' && f.depth > 0 || f.depth == maxNested {
		return false, errors.New("values in values in values")
	}
	f.size += int64(n) * elementSize
	f.left[f.depth] = n
	f.depth++
	return false, nil
}
