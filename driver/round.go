package driver

// Round is the value of the cell of a double barrier, in JSON. A driver that lays rounds out in
// another way, and cannot keep Left, refuses to swap it with an error that wraps
// errors.ErrUnsupported.
type Round struct {
	Members []string `json:"members"`        // the IDs of the tickets that entered together
	Left    []int    `json:"left,omitempty"` // which of them left by themselves, and did not die
}
