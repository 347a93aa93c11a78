package driver

// Round is the value of the cell of a double barrier, in JSON.
type Round struct {
	Members []string `json:"members"` // the IDs of the tickets that entered together
}
