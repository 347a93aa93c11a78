package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// duration is a flag in Go's form (1m30s) or in plain seconds (90, 0.5), as
// other tools take it.
type duration struct{ d *time.Duration }

func (v duration) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		f, wrong := strconv.ParseFloat(s, 64)
		if wrong != nil || f != f || f > 1e9 || f < -1e9 {
			return fmt.Errorf("%q is not a duration: write 90, 0.5 or 1m30s", s)
		}
		d = time.Duration(f * float64(time.Second))
	}
	if d < 0 {
		return fmt.Errorf("%q is negative", s)
	}
	*v.d = d
	return nil
}

func (v duration) String() string {
	if v.d == nil || *v.d == 0 {
		return ""
	}
	return v.d.String()
}

func (v duration) Type() string { return "duration" }

func durationVar(f *pflag.FlagSet, d *time.Duration, name, short, help string) {
	f.VarP(duration{d}, name, short, help)
}
