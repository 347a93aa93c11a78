package doctor

import "time"

// Ahead is how far a server's clock is ahead of that of this machine, if it was read in an
// exchange that lasted from began to ended, and how wrong that may be.
func Ahead(server, began, ended time.Time) (ahead, wrong time.Duration) {
	wrong = ended.Sub(began) / 2
	return server.Sub(began.Add(wrong)), wrong
}
