// Package doctortest looks at what a driver has found out about its backend.
package doctortest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Open opens a URL for the length of a test.
func Open(t *testing.T, url string) driver.Driver {
	t.Helper()
	u, err := driver.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.OpenURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Report is what Check has found.
type Report struct {
	T   *testing.T
	All []driver.Finding
}

// Examine calls Check.
func Examine(t *testing.T, ctx context.Context, d driver.Driver) Report {
	t.Helper()
	return report(t, d.Check(ctx))
}

// ExamineURL opens a URL for the length of a test, and calls Check.
func ExamineURL(t *testing.T, url string) Report {
	t.Helper()
	return Examine(t, t.Context(), Open(t, url))
}

// Hints makes sure that a refusal is one line, which sends who lacks a right to the doctor.
func Hints(t *testing.T, refused error) {
	t.Helper()
	if refused == nil || !strings.Contains(refused.Error(), doctor.Hint) || strings.Contains(refused.Error(), "\n") {
		t.Errorf("it says %v", refused)
	}
}

// Consult does what the doctor does with a URL: it opens and checks it, and examines what cannot
// be opened without that. The error says why it was not opened.
func Consult(t *testing.T, url string) (Report, error) {
	t.Helper()
	c, why := interlock.Open(t.Context(), url)
	if why == nil {
		defer c.Close()
		return report(t, c.Admin().Check(t.Context())), nil
	}
	all, err := interlock.Check(t.Context(), url)
	if err != nil {
		t.Fatalf("it can neither be opened (%v) nor examined: %v", why, err)
	}
	return report(t, all), why
}

// Advised does as administrator what the doctor says about a check that fails: the SQL that it
// names, maybe among other words. Then the URL can be opened, and all is well.
func Advised(t *testing.T, url, check, sql string, do func(sql string) string) {
	t.Helper()
	r, _ := Consult(t, url)
	r.Has(check, driver.Fail, sql)
	do(sql)
	r, refused := Consult(t, url)
	if r.Fit(); refused != nil {
		t.Errorf("after %s: %v", sql, refused)
	}
}

// A finding has to say what was looked at and what was found, and, unless all is well, which
// promise that affects and what to do. No remedy leads to the doctor again, unless as another user.
func report(t *testing.T, all []driver.Finding) Report {
	t.Helper()
	for _, f := range all {
		if f.Check == "" || f.Detail == "" || (f.Status == driver.OK) != (f.Promise == "" && f.Remedy == "") {
			t.Errorf("a finding with too much or too little: %+v", f)
		}
		if strings.Contains(strings.ReplaceAll(f.Detail+f.Remedy, "interlock doctor once with the URL of ", ""), "interlock doctor") {
			t.Errorf("a finding that leads to itself: %+v", f)
		}
	}
	return Report{t, all}
}

// Fit makes sure that nothing else fails.
func (r Report) Fit(but ...string) {
	r.T.Helper()
	for _, f := range r.All {
		if f.Status == driver.Fail && !slices.Contains(but, f.Check) {
			r.T.Errorf("%s fails: %s; remedy: %s", f.Check, f.Detail, f.Remedy)
		}
	}
}

// Only makes sure that nothing else is found to be wrong.
func (r Report) Only(checks ...string) {
	r.T.Helper()
	for _, f := range r.All {
		if f.Status != driver.OK && !slices.Contains(checks, f.Check) {
			r.T.Errorf("%s: %s: %s", f.Check, f.Status, f.Detail)
		}
	}
}

// Remedy is what is to be done about a check that fails.
func (r Report) Remedy(check string) string {
	r.T.Helper()
	r.Has(check, driver.Fail)
	for _, f := range r.All {
		if f.Check == check && f.Status == driver.Fail {
			return f.Remedy
		}
	}
	return ""
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
