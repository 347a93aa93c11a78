package keys_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// ticket is a Store's own type.
type ticket struct{ keys.Key }

type line = keys.Line[*ticket]

// read reads a line: words such as "mutex", "reader", "writer", "election", "3/8" for permits, "foreign" without a
// kind, and "lock" for a foreign mutex that may be an election. The orders are 1, 2, … unless "@N" follows; "!" is for
// one that stays. The IDs are letters, from a.
func read(words string) *line {
	l := &line{Whole: true}
	for i, word := range strings.Fields(words) {
		t := &ticket{keys.Key{ID: string(rune('a' + i)), Kind: driver.Mutex, Units: 1, Capacity: 1, Order: l.UpTo + 1}}
		word, t.Stays = strings.CutSuffix(word, "!")
		word, at, ok := strings.Cut(word, "@")
		if ok {
			t.Order, _ = strconv.ParseInt(at, 10, 64)
		}
		switch word {
		case "mutex":
		case "election":
			t.Kind = driver.Election
		case "reader":
			t.Kind, t.Capacity = driver.RWMutex, driver.RWCapacity
		case "writer":
			t.Kind, t.Units, t.Capacity = driver.RWMutex, driver.RWCapacity, driver.RWCapacity
		case "foreign":
			t.Kind, t.Foreign = "", true
		case "lock":
			t.Foreign, t.Also = true, []driver.Kind{driver.Election}
		default:
			t.Kind = driver.Semaphore
			if _, err := fmt.Sscanf(word, "%d/%d", &t.Units, &t.Capacity); err != nil {
				panic(word)
			}
		}
		l.Add(t)
		l.UpTo = max(l.UpTo, t.Order)
	}
	return l
}

func ids(all []*ticket) (s string) {
	for _, t := range all {
		s += t.ID
	}
	return s
}

// with has a number of permits set in a line.
func with(words string, n keys.Number) *line {
	l := read(words)
	l.Number = n
	return l
}

func TestWhoHolds(t *testing.T) {
	for _, c := range []struct {
		line *line
		// The last key of the line.
		is      string // how it stands
		blocker string
		watch   string // its obstacles; "!" behind them: enough
	}{
		{read("mutex"), "known held exclusive all", "", ""},
		{read("mutex mutex"), "known first all", "a", "a!"},
		{read("mutex mutex mutex"), "known all", "b", "b"},
		{read("mutex election"), "known first all", "a", "a!"},
		{read("foreign mutex"), "known first all", "a", "a!"},
		{read("reader"), "known held all", "", ""},
		{read("reader reader"), "known held all", "", ""},
		{read("reader writer"), "known first all", "a", "a!"},
		{read("reader reader writer"), "known first all", "b", "b"},
		{read("writer reader reader"), "known all", "a", "a!"},
		{read("reader writer reader writer reader"), "known all", "d", "d"},
		{read("1/3 1/3 1/3"), "known held all", "", ""},
		{read("1/3 1/3 1/3 1/3"), "known first all", "", "abc"},
		{read("1/3 2/3 1/3 1/3"), "known all", "", "bc"},
		{read("1/3 3/3 1/3"), "known all", "b", "b!"},
		{read("2/3 2/3"), "known first all", "", "a!"},
		{read("1/3 2/3 2/3"), "known first all", "", "b!"},
		{read("3/3"), "known held exclusive all", "", ""},
		{read("1/3 3/3"), "known first all", "a", "a!"},
		{read("1/2 1/3"), "known first all", "a", "a!"}, // of another number: until one of both has left
		{read("mutex 1/3"), "known first all", "a", "a!"},
		{read("1/3 foreign"), "known first all", "a", "a!"},
		{read("foreign foreign"), "known first all", "a", "a!"},
		{read(fmt.Sprintf("%d/%[1]d %[1]d/%[1]d 1/%[1]d", math.MaxInt64)), "known all", "b", "b"},
		{read("mutex mutex!"), "known held all", "a", "a!"},
		// A number was set.
		{with("1/3 1/3 1/3", keys.Number{Permits: 2, Set: 9}), "known first all", "", "ab"},
		{with("1/3 1/3 1/3", keys.Number{Permits: 2, Set: 9, Held: 3, Perhaps: 3}), "known held all", "", "ab"},
		{with("1/3 1/3 1/3 1/2@10", keys.Number{Permits: 2, Set: 9, Held: 3, Perhaps: 3}), "known first all", "", "bc"},
		{with("3/3 1/3", keys.Number{Permits: 4, Set: 9}), "known held all", "", ""},
		{with("3/3 1/4@10", keys.Number{Permits: 4, Set: 9}), "known held all", "", ""},
		{with("3/3", keys.Number{Permits: 2, Set: 9, Held: 1}), "known held exclusive all", "", ""},
		{with("1/3 3/3", keys.Number{Permits: 2, Set: 9}), "known first all", "a", ""},
		{with("1/3@10", keys.Number{Permits: 2, Set: 9}), "known first all", "", ""},             // it says another number
		{with("1/2@10", keys.Number{Permits: 2, Set: 9}), "known held all", "", ""},              // and this one not
		{with("mutex@10", keys.Number{Permits: 2, Set: 9}), "known first all", "", ""},           // it is no semaphore
		{with("1/3@10", keys.Number{Permits: 2, Set: 9, Unset: true}), "known held all", "", ""}, // and by now it is not in force
		{with("1/3 1/3@10", keys.Number{Permits: 2, Set: 9, Unset: true}), "known first all", "", "a"},
		{with("1/3 1/2@10", keys.Number{Permits: 2, Set: 9, Unset: true}), "known held all", "", ""},
		{with("1/3 mutex@10 1/2@11", keys.Number{Permits: 2, Set: 9}), "known all", "b", "b!"},
		{with("1/3 1/3@10 1/2@11", keys.Number{Permits: 2, Set: 9}), "known all", "b", "b!"},
	} {
		k := c.line.Keys[len(c.line.Keys)-1]
		p := c.line.Place(k)
		is := ""
		for _, one := range []struct {
			is   bool
			word string
		}{{p.Known, " known"}, {p.Held, " held"}, {p.Exclusive, " exclusive"}, {p.Wanted, " wanted"}, {p.First, " first"}, {p.All, " all"}} {
			if one.is {
				is += one.word
			}
		}
		blocker := ""
		if b, ok := p.Blocker(); ok {
			blocker = b.ID
		}
		obstacles, enough := p.Obstacles()
		slices.Reverse(obstacles)
		watch := ids(obstacles)
		if enough {
			watch += "!"
		}
		if is != " "+c.is || blocker != c.blocker && !p.Held || watch != c.watch && !p.Held {
			t.Errorf("%s, number %+v: the last one is%s (want %s), watches %q (want %q) or %q (want %q)",
				text(c.line), c.line.Number, is, c.is, blocker, c.blocker, watch, c.watch)
		}
	}
}

func text(l *line) (s string) {
	for _, t := range l.Keys {
		s += fmt.Sprintf("%s: %s %d/%d @%d  ", t.ID, t.Kind, t.Units, t.Capacity, t.Order)
	}
	return strings.TrimSpace(s)
}

func TestAHolderHearsOfWaiters(t *testing.T) {
	for words, wanted := range map[string]bool{"mutex": false, "mutex mutex": true, "reader reader": false, "reader reader writer": true, "1/2 1/2": false, "1/2 1/2 1/2": true, "mutex foreign": true} {
		l := read(words)
		if p := l.Place(l.Keys[0]); p.Wanted != wanted {
			t.Errorf("%s: wanted is %v", words, p.Wanted)
		}
	}
}

// Of several holders none has all there is.
func TestWhoHasAll(t *testing.T) {
	for _, c := range []struct {
		line *line
		all  bool
	}{
		{read("3/3"), true},
		{read("3/3 1/3"), true},
		{read("2/3 1/3"), false},
		{with("3/3 1/3", keys.Number{Permits: 2, Set: 9, Held: 1}), true},
		{with("3/3 1/3", keys.Number{Permits: 2, Set: 9, Held: 2}), false},
		{with("3/3 1/3", keys.Number{Permits: 4, Set: 9}), false},
	} {
		if p := c.line.Place(c.line.Keys[0]); p.Exclusive != c.all {
			t.Errorf("%s, number %+v: the first one has all: %v", text(c.line), c.line.Number, p.Exclusive)
		}
	}
}

// Of a line that is read in part is known what the rest cannot change.
func TestALineThatGoesOn(t *testing.T) {
	l := read("mutex mutex mutex")
	last := l.Keys[2]
	l.Whole, l.UpTo, l.Keys = false, 1, l.Keys[:1]
	if p := l.Place(last); !p.Known || p.Held || p.All || p.First {
		t.Errorf("behind a holder, and more: %+v", p)
	}
	if !l.Full() {
		t.Error("behind a mutex another one may be held")
	}
	l = read("1/3 1/3 1/3 1/3")
	last = l.Keys[3]
	l.Whole, l.UpTo, l.Keys = false, 2, l.Keys[:2]
	if p := l.Place(last); p.Known {
		t.Errorf("behind two holders of three, and more: %+v", p)
	}
	if l.Full() {
		t.Error("behind two of three permits no other is held")
	}
	if l = read("1/2 1/2"); !l.Full() {
		t.Error("behind two of two permits another one may be held")
	}
	if l.Number = (keys.Number{Permits: 2, Set: 9, Perhaps: 9}); l.Full() {
		t.Error("one further behind is perhaps held, and is not read")
	}
	if l.UpTo = 8; l.Full() {
		t.Error("one further behind is perhaps held, and the last key is not read")
	}
	if l.UpTo = 9; !l.Full() {
		t.Error("all are read that may be held")
	}
	if l = read(""); l.Full() {
		t.Error("nothing is full")
	}
	if l = read("foreign"); !l.Full() {
		t.Error("behind a foreign key another one may be held")
	}
	l = with("foreign", keys.Number{Permits: 2, Set: 9, Unset: true})
	if l.Permits() != 0 {
		t.Error("a number is in force that was taken back, and of that time is no key of permits")
	}
	if l.Whole = false; l.Permits() != 2 {
		t.Error("a number is not in force, though a key of permits may stand behind what was read")
	}
}

func TestWhoIsRefused(t *testing.T) {
	for _, c := range []struct {
		line  *line
		want  string // of the last one: "stays", "refused" by a key or by the number
		expel string
	}{
		{read("mutex mutex"), "stays", ""},
		{read("mutex election"), "refused a", ""},
		{read("1/3 1/2"), "refused a", ""},
		{read("1/3 1/2 1/3"), "by a", "b"},
		{read("1/3 1/2 1/2 mutex 1/3"), "by a", "bcd"},
		{read("1/3 1/2 1/2"), "refused a", ""},
		{read("foreign 1/3"), "stays", ""},
		{read("foreign 1/3 1/2"), "refused b", ""},
		{read("foreign 1/3 1/2 1/3"), "by b", "c"},
		{read("lock mutex"), "stays", ""},
		{read("lock election"), "stays", ""},
		{read("lock 1/3"), "refused a", ""},
		{read("lock 1/3 mutex"), "by a", "b"},
		{read("1/3 lock 1/3"), "refused b", ""},
		{read("mutex@5 1/3@1"), "stays", ""}, // the last one came first
		{with("1/3 1/2@10", keys.Number{Permits: 2, Set: 9}), "stays", ""},
		{with("1/3 1/3@10", keys.Number{Permits: 2, Set: 9}), "refused", ""},
		{with("1/3 mutex@10", keys.Number{Permits: 2, Set: 9}), "refused", ""},
		{with("mutex@10", keys.Number{Permits: 2, Set: 9}), "refused", ""},
		{with("1/3 1/3@10 mutex@11 1/2@12", keys.Number{Permits: 2, Set: 9}), "by the number", "bc"},
		{with("1/3 1/3@10", keys.Number{Permits: 2, Set: 9, Unset: true}), "refused", ""},
		{with("1/3@10", keys.Number{Permits: 2, Set: 9, Unset: true}), "stays", ""},
		{with("1/3 1/2 1/3@10", keys.Number{Set: 9, Perhaps: 9}), "stays", ""}, // the number is not known: b may be held
		{with("1/3 1/2@10 1/3@11", keys.Number{Set: 9, Perhaps: 9}), "by a", "b"},
	} {
		last := 0
		for i, k := range c.line.Keys {
			if k.ID > c.line.Keys[last].ID {
				last = i
			}
		}
		v := c.line.Agree(c.line.Keys[last])
		by := ""
		if v.By != nil {
			by = v.By.ID
		}
		is := "stays"
		switch {
		case v.Refused:
			is = strings.TrimSpace("refused " + by)
		case len(v.Expel) > 0 && by == "":
			is = "by the number"
		case len(v.Expel) > 0:
			is = "by " + by
		}
		if is != c.want || ids(v.Expel) != c.expel {
			t.Errorf("%s, number %+v: %s (want %s), %q is expelled (want %q)", text(c.line), c.line.Number, is, c.want, ids(v.Expel), c.expel)
		}
	}
}

func TestAnotherNumber(t *testing.T) {
	set := keys.Number{Permits: 3, Set: 9, Held: 2, Perhaps: 2}
	taken := set
	taken.Unset = true
	for _, c := range []struct {
		line    *line
		permits int64
		next    keys.Number
		change  bool
		err     error
	}{
		{read(""), 2, keys.Number{Permits: 2}, true, nil},
		{read("mutex"), 2, keys.Number{}, false, driver.ErrMismatch},
		{read("foreign"), 2, keys.Number{}, false, driver.ErrMismatch},
		{read("1/3"), 2, keys.Number{Permits: 2}, true, nil},
		{read("1/3"), 0, keys.Number{}, false, nil},
		{with("1/3 1/3", set), 4, keys.Number{Permits: 4, Held: 2}, true, nil},
		{with("1/3 1/3", set), 0, keys.Number{Permits: 3, Held: 2, Unset: true}, true, nil},
		{with("", set), 0, keys.Number{}, true, nil},
		{with("1/3", taken), 0, taken, false, nil},
		{with("1/4@10", taken), 0, keys.Number{}, true, nil},
		{with("1/3", taken), 5, keys.Number{Permits: 5, Held: 2}, true, nil},
	} {
		next, change, err := c.line.Resize(c.permits)
		if next != c.next || change != c.change || !errors.Is(err, c.err) {
			t.Errorf("%s, number %+v, to %d: %+v, %v, %v", text(c.line), c.line.Number, c.permits, next, change, err)
		}
	}
}

// A Store writes who is held with the number.
func TestWhoIsHeldWhenANumberIsSet(t *testing.T) {
	for _, c := range []struct {
		line    *line
		permits int64
		next    keys.Number // before it has a Set
		stand   string
	}{
		{read(""), 2, keys.Number{Permits: 2, Waited: 20}, ""},
		{read("1/3 1/3"), 2, keys.Number{Permits: 2, Held: 2, Waited: 20}, "b"},
		{read("1/3 2/3 1/3"), 1, keys.Number{Permits: 1, Held: 2, Waited: 20}, "abc"},
		{read("1/2 1/2 1/2 1/2"), 1, keys.Number{Permits: 1, Held: 2, Waited: 20}, "abc"},
		{with("1/3 1/3 1/3", keys.Number{Permits: 1, Set: 9, Held: 2}), 1, keys.Number{Permits: 1, Held: 2}, ""},
		{with("1/3 1/3 1/3", keys.Number{Permits: 1, Set: 9, Held: 2}), 4, keys.Number{Permits: 4, Held: 2}, ""},
		{with("1/3 1/3 1/3", keys.Number{Permits: 3, Set: 9, Held: 2}), 1, keys.Number{Permits: 1, Held: 3, Waited: 20}, "c"},
		{with("1/3 1/3 1/3@7", keys.Number{Permits: 2, Set: 9, Held: 2, Waited: 5, Perhaps: 8}), 1, keys.Number{Permits: 1, Held: 2, Waited: 5}, "abc"},
		{with("1/3 1/3 1/3@7", keys.Number{Permits: 2, Set: 9, Held: 2, Waited: 5, Perhaps: 8}), 2, keys.Number{Permits: 2, Held: 2, Waited: 5, Perhaps: 8}, ""},
		{with("1/3 1/3", keys.Number{Set: 9, Perhaps: 9}), 2, keys.Number{Permits: 2, Perhaps: 9}, ""},
	} {
		next, _, err := c.line.Resize(c.permits)
		if err != nil {
			t.Fatal(err)
		}
		stand := []byte(ids(c.line.HeldNow(&next, 20)))
		slices.Sort(stand)
		want := []byte(c.stand)
		slices.Sort(want)
		if next != c.next || string(stand) != string(want) {
			t.Errorf("%s, number %+v, to %d: %+v (want %+v), as long as %s stand (want %s)", text(c.line), c.line.Number, c.permits, next, c.next, stand, want)
		}
	}
}

func TestWhoNeverFits(t *testing.T) {
	for _, c := range []struct {
		line  *line
		unfit string
	}{
		{read("3/3 3/3"), ""},
		{with("3/3 1/3 3/3", keys.Number{Permits: 2, Set: 9, Held: 1, Perhaps: 1}), "c"},
		{with("3/3 1/3 3/3", keys.Number{Permits: 2, Set: 9, Perhaps: 9}), ""}, // it is not known who is held
		{with("1/3 3/3 3/3!", keys.Number{Permits: 2, Set: 9}), "b"},           // c has a fixed end
		{with("1/3 3/3@5 3/3@7", keys.Number{Permits: 2, Set: 9, Waited: 6, Perhaps: 8}), "b"},
		{with("1/3 1/3@10 mutex@11 foreign@12", keys.Number{Permits: 2, Set: 9}), "bc"},
		{with("1/3@10", keys.Number{Permits: 2, Set: 9, Unset: true}), ""},
	} {
		unfit := slices.DeleteFunc(slices.Clone(c.line.Keys), func(k *ticket) bool { return !c.line.Unfit(k) })
		if ids(unfit) != c.unfit {
			t.Errorf("%s, number %+v: %q never fit (want %q)", text(c.line), c.line.Number, ids(unfit), c.unfit)
		}
	}
}

// What is said is not believed: a key with later orders is from another backend.
func TestSoundNumbers(t *testing.T) {
	for n, sound := range map[keys.Number]bool{
		{}:                                             true,
		{Permits: 1, Set: 7}:                           true,
		{Permits: 1, Set: 9}:                           false,
		{Permits: 1, Set: 7, Held: 8}:                  false,
		{Permits: 1, Set: 7, Perhaps: 8}:               false,
		{Permits: 1, Set: 7, Held: -1}:                 false,
		{Permits: 1, Set: 7, Waited: -1}:               false,
		{Set: 7, Held: 3}:                              false, // none was held by a number that is not known
		{Set: 7, Perhaps: 7}:                           true,
		{Permits: driver.MaxCapacity + 1, Set: 7}:      false,
		{Permits: driver.MaxCapacity, Set: 8, Held: 8}: true,
	} {
		if n.Sound(8) != sound {
			t.Errorf("%+v, written at 8, is sound: %v", n, !sound)
		}
	}
}

// Promise: tokens grow with the order of creation, above each floor, and who was held keeps its token.
func TestTokens(t *testing.T) {
	var own, all keys.Floor
	if got := keys.Token(5, own, all); got != 5 {
		t.Errorf("without a floor the token is %d", got)
	}
	own = own.Raised(5, 8, 1000)
	all = all.Raised(7, 8, 2000)
	for created, want := range map[int64]uint64{5: 5, 6: 6 + 993, 7: 7 + 993, 8: 2001, 9: 2002} {
		if got := keys.Token(created, own, all); got != want {
			t.Errorf("the token of %d is %d, not %d", created, got, want)
		}
	}
	if again := own.Raised(9, 10, 500); again.Add(10) != own.Add(10) {
		t.Error("a lower floor changes tokens")
	}
	if got := keys.Token(8, keys.Floor{}.Raised(5, 8, 8)); got != 9 {
		t.Errorf("above 8 is %d", got)
	}
	last := uint64(0)
	for i := range int64(3 * keys.MaxSteps) {
		own = own.Raised(10*i, 10*i+3, rand.Uint64N(10000))
	}
	if len(own) != keys.MaxSteps {
		t.Errorf("%d steps are kept", len(own))
	}
	if own.Add(0) != own[0].Add || own[1:].Add(0) != 0 {
		t.Error("a floor that was shortened forgets what was added to all")
	}
	for created := range int64(1000) {
		if got := keys.Token(created, own); got <= last && created > 0 {
			t.Fatalf("the token of %d is %d, after %d", created, got, last)
		} else {
			last = got
		}
	}
}

func TestWhoInheritsByAMark(t *testing.T) {
	for _, c := range []struct {
		mark keys.Mark
		line string
		want bool
	}{
		{keys.Mark{}, "mutex", false},
		{keys.Mark{ID: "x", Changed: 3}, "mutex", true},
		{keys.Mark{Changed: 3}, "mutex", true}, // garbage
		{keys.Mark{ID: "a", Changed: 3}, "mutex", false},
		{keys.Mark{ID: "a", Inherited: true, Changed: 3}, "mutex", true},
		{keys.Mark{ID: "b", Changed: 3}, "1/3 1/3", false}, // it stands beside
	} {
		l := read(c.line)
		if got := l.MarkFor(c.mark, "a").Inherits("a"); got != c.want {
			t.Errorf("a inherits from %+v in %s: %v", c.mark, c.line, got)
		}
	}
	if m := (keys.Mark{ID: "x", Changed: 3}).By("a"); m != (keys.Mark{ID: "a", Inherited: true}) {
		t.Errorf("after a death a writes %+v", m)
	}
}

// Where the mark is the order of who has left cleanly, a waiter remembers whom it saw in front.
func TestWhoInheritsByOrder(t *testing.T) {
	type step struct {
		line string
		mark int64
	}
	for name, c := range map[string]struct {
		steps []step // the ticket is the last one of each line
		want  bool
	}{
		"the first":                                           {[]step{{"mutex", 0}}, false},
		"alone, after a clean one":                            {[]step{{"mutex@4", 3}}, false},
		"alone, after a death":                                {[]step{{"mutex@4", 2}}, true},
		"alone, and there was no mark":                        {[]step{{"mutex@4", 0}}, true},
		"the one in front leaves cleanly":                     {[]step{{"mutex@3 mutex@4", 2}, {"mutex@4", 3}}, false},
		"the one in front dies":                               {[]step{{"mutex@3 mutex@4", 2}, {"mutex@4", 2}}, true},
		"one had died before, another left cleanly":           {[]step{{"mutex@3 mutex@5", 2}, {"mutex@5", 3}}, false},
		"a waiter in front gives up":                          {[]step{{"mutex@3 mutex@4 mutex@5", 2}, {"mutex@3 mutex@5", 2}, {"mutex@5", 3}}, false},
		"a writer died before the readers":                    {[]step{{"reader@4 reader@5 reader@6", 2}}, true},
		"who had all permits has left, others stand":          {[]step{{"1/3@3 1/3@4", 2}}, false},
		"one that had all left, another has all beside":       {[]step{{"3/3@3 3/3@4 1/3@5", 2}, {"3/3@3 1/3@5", 4}, {"3/3@3 1/3@5!", 4}}, false},
		"one that had all died, another has all beside":       {[]step{{"3/3@3 3/3@4 1/3@5", 2}, {"3/3@3 1/3@5", 2}, {"3/3@3 1/3@5!", 2}}, true},
		"the one in front died, before it was a mark":         {[]step{{"writer@4 reader@5", 3}, {"reader@5", 3}}, true},
		"the one in front left, before the mark one had died": {[]step{{"writer@4 reader@6", 3}, {"reader@5 reader@6", 4}}, false},
		"the last in front has left, others hold":             {[]step{{"reader@3 writer@4 writer@5", 2}, {"reader@3 writer@5", 2}, {"writer@5", 2}}, false},
	} {
		var h keys.Heir
		got := false
		for _, s := range c.steps {
			l := read(s.line)
			p := l.Place(l.Keys[len(l.Keys)-1])
			keys.Sees(&h, &p)
			got = keys.Inherits(&h, &p, s.mark, 0)
		}
		if got != c.want {
			t.Errorf("%s: it inherits: %v", name, got)
		}
	}
	l := read("mutex@6")
	p := l.Place(l.Keys[0])
	if keys.Inherits(new(keys.Heir), &p, 3, 2) {
		t.Error("two orders that were of no keys count as deaths")
	}
	h := keys.Heir{}
	keys.Inherits(&h, &p, 1, 0)
	h.Clean()
	if keys.Inherits(&h, &p, 5, 0) {
		t.Error("it inherits although who was in front has left cleanly")
	}
}

// random is a line as several programs make it.
func random() *line {
	words := []string{"1/3", "1/3", "2/3", "3/3", "1/3", "1/2", "mutex", "foreign", "1/3!"}
	if rand.N(2) == 0 {
		words = []string{"reader", "reader", "writer"}
	}
	var all []string
	at := 0
	for range rand.N(9) {
		at += 1 + rand.N(3)
		all = append(all, fmt.Sprint(strings.TrimSuffix(words[rand.N(len(words))], "!"), "@", at))
	}
	l := read(strings.Join(all, " "))
	if rand.N(2) == 0 {
		l.Number = keys.Number{Permits: 1 + rand.Int64N(4), Set: rand.Int64N(25), Unset: rand.N(3) == 0}
		if held := l.Holders(); len(held) > 0 {
			l.Number.Held = min(l.Number.Set, held[rand.N(len(held))].Order)
		}
	}
	return l
}

// without is a line after some have left.
func without(l *line, gone func(*ticket) bool) *line {
	rest := *l
	rest.Keys = slices.DeleteFunc(slices.Clone(l.Keys), gone)
	return &rest
}

// Promise: the holders are the first ones of a line, and fit. While what it watches stands a waiter waits; if that is
// said to be enough, it is held when that has left. Part of a line says nothing else than the whole. No key that
// leaves takes a permit from a holder. A newcomer that agrees with its line has none in front that does not suit it.
func TestTheRuleOfALine(t *testing.T) {
	for range 20000 {
		l := random()
		say := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("%s, number %+v: %s", text(l), l.Number, fmt.Sprintf(format, args...))
		}
		holders, units := l.Holders(), int64(0)
		for i, k := range l.Keys {
			p := l.Place(k)
			if p.Held != (i < len(holders)) {
				say("%s is held, and one in front is not", k.ID)
			}
			if !p.Known || !p.All || p.Held && p.First || p.Exclusive && len(holders) != 1 {
				say("%s is %+v", k.ID, p)
			}
			if units += k.Units; p.Held && k.Order > l.Number.Held && units > l.Capacity(k) {
				say("%s is held, with %d units of %d", k.ID, units, l.Capacity(k))
			}
			uniform := !slices.ContainsFunc(l.Keys, func(o *ticket) bool {
				return !l.Intrudes(o) && !o.Foreign && (o.Kind != k.Kind || l.Capacity(o) != l.Capacity(k)) || l.Intrudes(o)
			})
			if first := i == len(holders); uniform && p.First != first {
				say("%s is the first waiter: %v", k.ID, p.First)
			}
			if wanted := p.Held && len(holders) < len(l.Keys); uniform && p.Wanted != wanted {
				say("%s is wanted: %v", k.ID, p.Wanted)
			}
			part := *l
			part.Keys, part.Whole, part.UpTo = l.Keys[:rand.N(len(l.Keys)+1)], false, 0
			if n := len(part.Keys); n > 0 {
				part.UpTo = part.Keys[n-1].Order
			}
			if q := part.Place(k); q.Known && q.Held != p.Held && part.Permits() == l.Permits() {
				say("of the first %d is known that %s is held: %v", len(part.Keys), k.ID, q.Held)
			}
			if part.Full() && part.Permits() == l.Permits() && len(part.Keys) < len(holders) {
				say("the first %d are full, and %d are held", len(part.Keys), len(holders))
			}
			if p.Held {
				continue
			}
			obstacles, enough := p.Obstacles()
			if len(obstacles) == 0 && k.Units <= l.Capacity(k) && !l.Intrudes(k) {
				say("%s watches none", k.ID)
			}
			stay := func(o *ticket) bool { return o == k || slices.Contains(obstacles, o) }
			rest := without(l, func(o *ticket) bool { return !stay(o) && rand.N(2) == 0 })
			if rest.Permits() == l.Permits() && rest.Place(k).Held {
				say("%s is held while %s stand", k.ID, ids(obstacles))
			}
			if b, ok := p.Blocker(); ok {
				if rest := without(l, func(o *ticket) bool { return o != k && o != b }); rest.Permits() == l.Permits() && rest.Place(k).Held {
					say("%s is held while %s stands", k.ID, b.ID)
				}
			}
			if enough {
				if rest := without(l, func(o *ticket) bool { return o == obstacles[0] }); rest.Permits() == l.Permits() && !rest.Place(k).Held && !l.Intrudes(k) {
					say("%s waits although %s has left", k.ID, obstacles[0].ID)
				}
			}
		}
		if len(l.Keys) == 0 {
			continue
		}
		some := rand.N(len(l.Keys))
		rest := without(l, func(o *ticket) bool { return o == l.Keys[some] })
		for i, k := range holders {
			if i != some && rest.Permits() == l.Permits() && !rest.Place(k).Held {
				say("%s is not held any more since %s has left", k.ID, l.Keys[some].ID)
			}
		}
		for k, l := l.Keys[some], l; ; {
			v := l.Agree(k)
			if len(v.Expel) == 0 {
				if i := slices.IndexFunc(l.Keys, func(o *ticket) bool {
					return o.Order < k.Order && !o.Foreign && (l.Intrudes(o) || o.Kind != k.Kind || l.Capacity(o) != l.Capacity(k))
				}); i >= 0 && !v.Refused {
					say("%s agrees with %s", k.ID, l.Keys[i].ID)
				}
				break
			}
			for _, o := range v.Expel {
				if !v.Refused && slices.Contains(l.Holders(), o) && l.Number.Permits == 0 {
					say("%s expels %s, which is held", k.ID, o.ID)
				}
			}
			l = without(l, func(o *ticket) bool { return slices.Contains(v.Expel, o) })
		}
	}
}
