// Package doctortest looks at what a driver has found out about its backend.
package doctortest

import (
	"context"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Report is what Check has found.
type Report struct {
	T   *testing.T
	All []driver.Finding
}

// Examine calls Check. A finding has to say what was looked at and what was found, and,
// unless all is well, which promise that affects and what to do.
func Examine(t *testing.T, ctx context.Context, d driver.Driver) Report {
	t.Helper()
	all := d.Check(ctx)
	for _, f := range all {
		if f.Check == "" || f.Detail == "" || (f.Status == driver.OK) != (f.Promise == "" && f.Remedy == "") {
			t.Errorf("a finding with too much or too little: %+v", f)
		}
	}
	return Report{t, all}
}

// Has makes sure that there is a finding with all these words.
func (r Report) Has(check string, status driver.Status, words ...string) {
	r.T.Helper()
	for _, f := range r.All {
		if f.Check != check || f.Status != status {
			continue
		}
		all := true
		for _, w := range words {
			all = all && strings.Contains(f.Detail+"\n"+f.Promise+"\n"+f.Remedy, w)
		}
		if all {
			return
		}
	}
	r.T.Errorf("no finding %s: %s with %q among", status, check, words)
	for _, f := range r.All {
		r.T.Errorf("\t%s: %s: %s; affects: %s; remedy: %s", f.Status, f.Check, f.Detail, f.Promise, f.Remedy)
	}
}
