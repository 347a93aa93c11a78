package flashsale

import "time"

// The workers talk to their parent in lines of JSON. The parent sends a job and then,
// once all workers are ready, requests. It keeps a worker's standard input open as long
// as it lives. The worker sends messages.

// job is what one worker has to do.
type job struct {
	Strategy string
	Worker   int // from 1
	Items    int
	Segments int // of each item
	Work     time.Duration
	Shop     place
	URL      string
	TTL      time.Duration // of the locks; 0: as the URL says
	Lock     string        // what the names of its locks begin with
	Strike   int           // the stock at which a worker is struck; 0: none is
}

// request is what a parent wants of a worker.
type request struct {
	Kind  kind
	Click int // of a click
	Buyer int // of a click
}

// message is one thing that a worker says.
type message struct {
	Kind  kind
	Click int    `json:",omitempty"` // of an answer
	Sold  bool   `json:",omitempty"` // of an answer: the buyer has an order
	New   bool   `json:",omitempty"` // of an answer: by this click
	Error string `json:",omitempty"` // of failed

	// Of done.
	Retries   int `json:",omitempty"`
	Refused   int `json:",omitempty"`
	TakenOver int `json:",omitempty"`
	Repeated  int `json:",omitempty"`
}

type kind string

const (
	// Requests.
	click kind = "click" // a buyer wants a piece
	goOn  kind = "go on" // after midway
	shut  kind = "shut"  // no click follows

	// Messages.
	ready   kind = "ready"
	answer  kind = "answer"
	written kind = "written" // its consumer has written an order
	midway  kind = "midway"  // it waits between two steps, and can be struck
	done    kind = "done"    // the last one of a worker
	failed  kind = "failed"  // likewise
)
