package curator

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/interlock-go/interlock/driver"
)

type addition struct {
	After uint64 `json:"after,string"`
	Add   uint64 `json:"add,string"`
	Lost  uint64 `json:"lost,string,omitempty"` // the ensemble had reached this transaction, and then lost it
}

func added(all []addition, zxid uint64) (add uint64) {
	for _, a := range all {
		if zxid > a.After {
			add = max(add, min(a.Add, driver.MaxToken))
		}
	}
	return add
}

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

type additions struct {
	of   map[string]json.RawMessage
	lost bool // nothing can be read
}

const allQueues = ""

func decodeAdditions(c content) (a additions) {
	if len(c.Data) == 0 && c.Stat.Version == 0 {
		return a // nobody has written yet
	}
	if json.Unmarshal(c.Data, &a.of) != nil || a.of == nil {
		return additions{lost: true}
	}
	return a
}

var errIllegible = errors.New("not as it was written")

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
