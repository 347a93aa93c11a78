package primitives

// A rule checks one promise of package interlock.
type rule struct {
	name    string
	promise string
	check   func(*trial)

	exact     bool // an error of the backend is seen by the rule: no reply may get lost
	processes bool // makes clients in other processes
	alone     bool // takes all processors: not beside other rules
	network   bool // is about what is between a client and the backend: World.Via
}

// A variant is a way in which a rule is checked.
type variant string

const (
	plain       variant = "plain"
	repliesLost variant = "replies lost"
)

func (r rule) variants() []variant {
	if r.exact || r.processes {
		return []variant{plain}
	}
	return []variant{plain, repliesLost}
}
