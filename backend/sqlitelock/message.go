package sqlitelock

import (
	"encoding/json"

	"zombiezen.com/go/sqlite"
)

// message tells a driver what has become of its sessions' tickets, which it names
// by their numbers, or that something changed that it watches. It is true
// whenever it arrives: a ticket that was granted stays so until it leaves.
type message struct {
	Queue     string  `json:"q,omitempty"`
	Granted   []int64 `json:"g,omitempty"`
	Shift     int64   `json:"s,omitempty"` // token = number + shift
	Inherited bool    `json:"i,omitempty"`
	Wanted    bool    `json:"w,omitempty"` // somebody waits behind those granted
	Want      []int64 `json:"want,omitempty"`
	Revoke    []int64 `json:"revoke,omitempty"`
	Evict     []int64 `json:"evict,omitempty"`
	Gone      []int64 `json:"gone,omitempty"`
	Over      int64   `json:"over,omitempty"` // this session is
	Changed   bool    `json:"c,omitempty"`    // the queue
	Cell      string  `json:"v,omitempty"`    // this cell has changed
	Ends      moment  `json:"e,omitempty"`    // what is in front ends then, which may be sooner than it was
	Look      bool    `json:"look,omitempty"`
}

// letter is a message on its way to a session, or to whoever has the post.
type letter struct {
	sid  int64
	to   address
	body message
}

// address is where a session is reached.
type address struct {
	post    string // the name of its driver's socket
	session string // the ID of the session; "" if only the driver is meant
}

// tell returns the message to a session about a queue, to be filled in.
func (t *tx) tell(sid int64, queue string) *message {
	for i := range t.letters {
		if l := &t.letters[i]; l.sid == sid && sid != 0 && l.body.Queue == queue {
			return &l.body
		}
	}
	t.letters = append(t.letters, letter{sid: sid, body: message{Queue: queue}})
	return &t.letters[len(t.letters)-1].body
}

// tellWatchers tells those who wait for the next change of a queue or cell.
func (t *tx) tellWatchers(what, name string, m message) error {
	var wrong error
	err := t.all("SELECT post FROM watch WHERE what = ? AND name = ?", func(s *sqlite.Stmt) bool {
		to := address{post: s.ColumnText(0)}
		wrong = checkPost(to.post)
		t.letters = append(t.letters, letter{to: to, body: m})
		return wrong == nil
	}, what, name)
	if err == nil {
		err = wrong
	}
	if err == nil {
		err = t.exec("DELETE FROM watch WHERE what = ? AND name = ?", what, name)
	}
	return err
}

// addressed finds out where the letters go.
func (t *tx) addressed() (err error) {
	for i := range t.letters {
		if l := &t.letters[i]; l.sid != 0 {
			if l.to, err = t.address(l.sid); err != nil {
				return err
			}
		}
	}
	return nil
}

// send delivers what a transaction had to tell.
func (d *Driver) send(letters []letter) {
	for _, l := range letters {
		switch l.to.post {
		case d.post.name:
			d.receive(l.body)
			continue
		case "": // the session is over, or has no socket
			continue
		}
		data, err := json.Marshal(l.body)
		if err == nil {
			d.post.deliver(l.to, data)
		}
	}
}

// open reads a message from another driver.
func (d *Driver) open(data []byte) {
	var m message
	if json.Unmarshal(data, &m) == nil {
		d.receive(m)
	}
}
