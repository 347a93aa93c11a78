package zklock

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
)

// addition is made to the token of tickets whose transaction is later than After.
type addition struct {
	After uint64 `json:"after,string"`
	Add   uint64 `json:"add,string"`
	Lost  uint64 `json:"lost,string,omitempty"` // the ensemble had reached this transaction, and then lost it
}

// added is what is added to a transaction. It never falls from one transaction to a later one,
// whatever the additions are: so tokens grow as transactions do.
func added(all []addition, zxid uint64) (add uint64) {
	for _, a := range all {
		if zxid > a.After {
			add = max(add, min(a.Add, driver.MaxToken))
		}
	}
	return add
}

// raised returns the additions with one more, and without the ones that no ticket needs: it hides them, or they
// are for tickets before the oldest one that stands.
func raised(have []addition, last addition, oldest uint64) (next []addition) {
	for i, a := range have {
		following := last
		if i+1 < len(have) {
			following = have[i+1]
		}
		if a.After < last.After && following.After >= oldest {
			next = append(next, a)
		}
	}
	return append(next, last)
}

// additions are what the node of all queues says of each, by its flat name; the ones of allQueues
// are for all of them. What cannot be read of one queue harms no other.
type additions struct {
	of   map[string]json.RawMessage
	lost bool // nothing can be read
}

const allQueues = ""

func decodeAdditions(c zk.Content) (a additions) {
	if len(c.Data) == 0 && c.Stat.Version == 0 {
		return a // nobody has written yet
	}
	if json.Unmarshal(c.Data, &a.of) != nil || a.of == nil {
		return additions{lost: true}
	}
	return a
}

var errIllegible = errors.New("not as it was written")

// decodeRecord reads the additions of one queue, of which there is at least one.
func decodeRecord(data []byte) (all []addition, err error) {
	if json.Unmarshal(data, &all) != nil || len(all) == 0 {
		return nil, errIllegible
	}
	for _, a := range all {
		if a.Add == 0 || a.Add >= driver.MaxToken {
			return nil, errIllegible
		}
	}
	return all, nil
}

// reached is a transaction that the ensemble had reached once, by what the last raise of each queue says.
func (a additions) reached() (zxid uint64) {
	for _, data := range a.of {
		if all, err := decodeRecord(data); err == nil {
			last := all[len(all)-1]
			zxid = max(zxid, last.After, last.Lost)
		}
	}
	return zxid
}

// illegible returns whose additions cannot be read.
func (a additions) illegible() (whose []string) {
	if a.lost {
		return []string{"all names"}
	}
	for queue, data := range a.of {
		if _, err := decodeRecord(data); err != nil {
			whose = append(whose, cmp.Or(unflat(queue), "all names"))
		}
	}
	slices.Sort(whose)
	return whose
}
