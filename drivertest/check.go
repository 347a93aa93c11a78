package drivertest

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

var _ = rules.Add(rule{Name: "Check", Says: []string{
	"Check examines whether the backend can be reached and is configured so that its promises hold. It reports what it found out even when something failed.",
	"what was looked at", "what was found", "the promise that this affects; \"\" if OK", "what to do; \"\" if OK",
}}, func(t *trial) {
	d := t.driver()
	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	t.FatalIf(len(d.Check(ctx)) == 0, "Check tells nothing when its context has ended")
	findings := d.Check(t.Ctx)
	t.FatalIf(len(findings) == 0, "Check found nothing out")
	for _, f := range findings {
		t.FatalIf(f.Check == "" || f.Detail == "", "a finding without a subject or a detail: %+v", f)
		switch f.Status {
		case driver.OK:
			t.FatalIf(f.Promise != "" || f.Remedy != "", "nothing is wrong, and yet there is a remedy: %+v", f)
		case driver.Warn, driver.Fail:
			t.FatalIf(f.Promise == "" || f.Remedy == "",
				"something is wrong, and no promise or no remedy is named: %+v", f)
			t.FatalIf(f.Status == driver.Fail, "the backend under test fails its own examination: %+v", f)
		default:
			t.Fatalf("a finding of no known status: %+v", f)
		}
		t.Logf("%s: %s: %s %s", f.Status, f.Check, f.Detail, f.Remedy)
	}
})
