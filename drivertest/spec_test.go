package drivertest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	spaces   = regexp.MustCompile(`\s+`)
	sentence = regexp.MustCompile(`.*?[.:;](\s|$)|.+$`)
)

// specification returns the comments of package driver, each in one line.
func specification(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("package driver: %d files, %v", len(paths), err)
	}
	var comments []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range f.Comments {
			for paragraph := range strings.SplitSeq(c.Text(), "\n\n") {
				if p := spaces.ReplaceAllString(strings.TrimSpace(paragraph), " "); p != "" && !strings.HasPrefix(p, "#") {
					comments = append(comments, p)
				}
			}
		}
	}
	return comments
}

// What a rule quotes stands in package driver.
func TestRulesQuoteTheSpecification(t *testing.T) {
	spec := strings.Join(specification(t, "../driver/*.go"), "\n")
	for _, r := range rules {
		if len(r.Says) == 0 {
			t.Errorf("rule %s quotes no sentence", r.Name)
		}
		for _, quote := range r.Says {
			if !strings.Contains(spec, quote) {
				t.Errorf("rule %s quotes what package driver does not say:\n\t%s", r.Name, quote)
			}
		}
	}
}

// What package driver says of a backend is quoted by a rule, or stands here with
// the reason why no rule checks it. A clause ends with a full stop, a colon or a
// semicolon.
func TestRulesCoverTheSpecification(t *testing.T) {
	quoted := map[string]bool{}
	for _, r := range rules {
		for _, quote := range r.Says {
			quoted[quote] = true
		}
	}
	used := map[string]bool{}
	for _, comment := range specification(t, "../driver/driver.go") {
	clauses:
		for _, clause := range sentence.FindAllString(comment, -1) {
			clause = strings.TrimRight(clause, ".:; ")
			for quote := range quoted {
				if strings.Contains(quote, clause) || strings.Contains(clause, quote) {
					continue clauses
				}
			}
			for _, group := range unchecked {
				for _, c := range group.clauses {
					if c == clause {
						used[c] = true
						continue clauses
					}
				}
			}
			t.Errorf("no rule checks:\n\t%s", clause)
		}
	}
	for _, group := range unchecked {
		for _, c := range group.clauses {
			if !used[c] {
				t.Errorf("not checked, says the list, but package driver does not say it or a rule checks it:\n\t%s", c)
			}
		}
	}
}

// unchecked are the clauses that no rule checks.
var unchecked = []struct {
	reason  string
	clauses []string
}{
	{"defines a word", []string{
		"Package driver is what a backend of Interlock implements",
		"Its comments are the specification",
		"package drivertest checks each sentence of it",
		"A queue has a name, a kind and a capacity",
		"A ticket is a place in a queue and asks for some units of its capacity",
		"One rule carries every lock",
		"RWCapacity is the capacity of a read-write lock and of a double barrier, the same on every backend",
		"MaxCell is the largest value of a cell, in bytes",
		"MaxToken is the first number that is too large for a [Ticket].Token",
		"twelve more bits are added for grants within one process, and the sum fits a signed 64-bit integer",
		"Driver is one backend, opened by one client",
		"Open starts a session",
		"Load reads a cell",
		"The last segment of a cell's name says what it is for",
		"barrier, latch, leader, round (see [Round]) or value",
		"Session is a client's standing with a backend",
		"its tickets die with it",
		"Signals returns the next signal",
		"Most backends have none",
		"SessionOptions are what a client asks of its session",
		"a wish", "see Opened.TTL",
		"Opened is a session, and what the backend says of it once",
		"Kind says what a queue is used as",
		"Request asks for a ticket",
		"Ticket.Inherited is wanted",
		"ErrBusy instead of standing in line",
		"Ticket is a place in a queue",
		"State is what Renew found out about a ticket",
		"Renewed is the answer of Renew for one ticket",
		"of a Kept ticket", "as Ticket.Proof",
		"Demand is something that a ticket's holder is asked for",
		"Signal is a demand for one ticket, or for all (Doubt)",
		"Cell is a versioned value",
		"Swap changes a cell",
		"Finding is one result of Check",
		"Status grades a finding",
	}},
	{"allows something, and demands nothing", []string{
		"Those of another library and rounds may be left out",
		"A backend whose tickets cannot be given another capacity", "[errors.ErrUnsupported]",
	}},
	{"is the caller's to do", []string{
		"the caller does, once, for all of them",
		"An error marked by [Permanent] will be the same next time and is not repeated",
		"The request must have Retry set if the ID may have been sent before",
		"chosen at random by the caller",
		"this ID may have been sent before", "look for it",
	}},
	{"is checked above all drivers, by driver.Checked: TestWrongArgumentsReachNoDriver", []string{
		"Arguments are checked once, above all drivers, by [Checked]",
		"a driver relies on what is said of them here",
		"A TTL that is not positive", "A time that is not positive",
		"A value of more than MaxCell bytes is refused with ErrTooLarge",
		"1 <= Units <= Capacity <= MaxCapacity",
		"satisfies [CheckID]",
	}},
	{"cannot be seen from outside", []string{
		"Drivers do not retry, except inside them",
		"It is part of the queue's identity and may choose a layout that is shared with other programs, never the rule",
		"A known ticket that is not in the answer could not be asked about",
		"host:pid by default",
	}},
	{"is of a quorum: TestAMemberThatKeepsADeadTicketKeepsNobodyOut and TestALostLeaseNamesTheMembersThatHaveNotRenewedIt", []string{
		"of a quorum", "the members that keep a place for it although it is not held",
		"could not be asked about, as one that is not in the answer", "see Renewed.Why", "of an Unasked ticket", "who has not answered",
	}},
	{"is of a server that loses tickets in a crash: TestWhoWaitsAfterACrashIsToldWhy of each such backend", []string{
		"nobody is granted anything before, since the backend has lost tickets that may be held", "it grants",
	}},
	{"is of other libraries, which the tests of a backend that meets them start", []string{
		"Foreign", "it is of another library",
		"Left is 0, for how long it stands is not known, and while it is held, Evict asks only, as Revoke does",
	}},
}
