package main

import (
	"testing"
	"time"
)

// Promise: durations are written in Go's form or in plain seconds.
func TestDurationsAreInGoFormOrInSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90":    90 * time.Second,
		"0.5":   500 * time.Millisecond,
		"0":     0,
		"1e3":   1000 * time.Second,
		"1m30s": 90 * time.Second,
		"250ms": 250 * time.Millisecond,
		"1.5h":  90 * time.Minute,
	} {
		var d time.Duration
		if err := (duration{&d}).Set(text); err != nil || d != want {
			t.Errorf("%q: %v (%v), want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "NaN", "Inf", "1e10", "-1e10", "5 s", "1d", "0x"} {
		d := time.Hour
		if err := (duration{&d}).Set(text); err == nil || d != time.Hour {
			t.Errorf("%q: %v (%v), want an error", text, d, err)
		}
	}
}
