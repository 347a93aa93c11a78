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
	} {
		t.Run(test.name, func(t *testing.T) {
			c := get[*zkpeer.Contest](t)(p.Contest(ctx, test.shape, 100*time.Millisecond))
			eventually(t, "everybody has had a turn", func() bool {
				const long = 100 * time.Millisecond
				f := get[zkpeer.Figures](t)(c.Run(ctx, long, 20*time.Second))
				if len(f.Each) != test.shape.Workers || len(f.Wrong) > 0 || f.Stuck > 0 || f.Took < long {
					t.Fatalf("%+v", f)
				}
				return slices.Min(f.Each) > 0 && (len(f.Gaps) > 0) == test.gaps
			})
			must(t, c.Close(ctx))
		})
	}
}
