package zkpeer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

func TestContest(t *testing.T) {
	p := curator(t)
	ctx := within(t)
	for _, test := range []struct {
		name  string
		shape zkpeer.Shape
		gaps  bool
	}{
		{"W1", zkpeer.Shape{Clients: 1, Workers: 1, Names: 1}, false},
		{"W2", zkpeer.Shape{Clients: 1, Workers: 16, Names: 16}, false},
		{"W3", zkpeer.Shape{Clients: 1, Workers: 16, Names: 1}, true},
		{"W4", zkpeer.Shape{Clients: 4, Workers: 4, Names: 1}, true},
		{"W4-hold", zkpeer.Shape{Clients: 4, Workers: 4, Names: 1, Hold: time.Millisecond, Think: time.Millisecond}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := get[*zkpeer.Contest](t)(p.Contest(ctx, test.shape, 100*time.Millisecond))
			eventually(t, "everybody has had a turn", func() bool {
				const long = 100 * time.Millisecond
				f := get[zkpeer.Figures](t)(c.Run(ctx, long, 20*time.Second))
				if len(f.Each) != test.shape.Workers || len(f.Wrong) > 0 || f.Stuck > 0 || f.Took < long {
					t.Fatalf("%+v", f)
				}
				// A process that hardly ran has used no time that is counted.
				return slices.Min(f.Each) > 0 && f.CPU > 0 && (len(f.Gaps) > 0) == test.gaps
			})
			must(t, c.Close(ctx))
		})
	}
}

func TestCrowd(t *testing.T) {
	p := curator(t)
	ctx := within(t)
	c := get[*zkpeer.Crowd](t)(p.Crowd(ctx, 30, 5, 20*time.Second))
	f := get[zkpeer.Figures](t)(c.Drain(ctx, 20*time.Second))
	must(t, c.Close(ctx))
	if f.Drained != 30 || len(f.Gaps) != 30 || f.Stuck > 0 || len(f.Wrong) > 0 || f.Took == 0 {
		t.Errorf("%+v", f)
	}
}
