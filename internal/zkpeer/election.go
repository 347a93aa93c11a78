package zkpeer

import "context"

// Election is one candidate of an election.
type Election struct {
	thread *Thread
	family string
	args   Args
}

// Participant is a candidate as others see it.
type Participant struct {
	ID     string `json:"id"`
	Leader bool   `json:"leader"`
}

// Latch is a LeaderLatch of Curator: it leads until it is closed.
func (s *Session) Latch(path, id string) *Election { return s.election("latch", path, id) }

// Selector is a LeaderSelector of Curator, or an Election of kazoo: it leads until
// it resigns.
func (s *Session) Selector(path, id string) *Election { return s.election("selector", path, id) }

// What waits has a thread of its own, so that all else can be asked meanwhile.
func (s *Session) election(family, path, id string) *Election {
	return &Election{s.thread(family + " " + path + " " + id), family, Args{"path": path, "candidate": id}}
}

// Start makes it a candidate. One that has resigned may start again.
func (e *Election) Start() error { return e.brief("start", nil) }

// Leads reports whether it is the leader.
func (e *Election) Leads() (yes bool, err error) {
	err = e.brief("leads", &yes)
	return yes, err
}

// Await waits until it is the leader.
func (e *Election) Await(ctx context.Context) error {
	return e.thread.Call(ctx, e.family+".await", e.args, nil)
}

// Resign ends the leadership of a selector.
func (e *Election) Resign() error { return e.brief("resign", nil) }

// Participants lists the candidates of a latch. Who is last to know may see no leader.
func (e *Election) Participants() (all []Participant, err error) {
	err = e.brief("participants", &all)
	return all, err
}

// Close ends the candidacy and the leadership.
func (e *Election) Close() error { return e.brief("close", nil) }

// brief does not wait behind an Await.
func (e *Election) brief(op string, result any) error {
	asking := e.thread.session.thread("asks " + e.thread.name)
	return asking.brief(e.family+"."+op, e.args, result)
}
