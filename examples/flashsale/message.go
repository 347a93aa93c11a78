package flashsale

import "time"

// The workers talk to their parent in lines of JSON: the parent sends a job,
// then a start once all are ready, and keeps the worker's standard input open
// as long as it lives; the worker sends messages.

// job is what one worker has to do.
type job struct {
	Strategy string
	Worker   int // from 1
	Workers  int // buyer b goes to worker b modulo Workers, plus 1
	Buyers   int
	Items    int
	Work     time.Duration
	Shop     place
	URL      string
	Lock     string
}

// start tells a worker to open its doors.
type start struct{}

// message is one thing that a worker says.
type message struct {
	Kind    kind
	Buyer   int    `json:",omitempty"` // of an answer
	Sold    bool   `json:",omitempty"` // of an answer: there is an order
	Retries int    `json:",omitempty"` // of done
	Error   string `json:",omitempty"` // of failed
}

type kind string

const (
	ready  kind = "ready"
	answer kind = "answer"
	done   kind = "done"   // the last one of a worker
	failed kind = "failed" // likewise
)
