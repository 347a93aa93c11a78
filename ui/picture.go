package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// picture is who waits for whom: boxes in columns, from who waits on the left to who waits for no other on the right.
type picture struct {
	Boxes         []box
	Arrows        []arrow
	Width, Height int
	Left          int // programs that are not shown
}

type box struct {
	Owner string
	X, Y  int
	Stuck bool // in a deadlock
}

type arrow struct {
	view.Wait
	Path         string
	LabelX       int
	LabelY       int
	Stuck        bool
	Label, Title string
}

const (
	mostBoxes  = 40
	boxWidth   = 190
	boxHeight  = 34
	columnStep = 330
	rowStep    = 62
	margin     = 20
)

// draw lays a picture out. Of too many programs it shows those with the most waiters.
func draw(waits []view.Wait, deadlocks []interlock.Deadlock) picture {
	stuck := map[[2]string]bool{}
	for _, d := range deadlocks {
		for i, w := range d.Waits {
			stuck[[2]string{w.Owner, w.By.Owner}] = true
			// A job of the holder may be the one that waits: then the holder waits for its job.
			if next := d.Waits[(i+1)%len(d.Waits)].Owner; next != w.By.Owner {
				stuck[[2]string{w.By.Owner, next}] = true
				waits = append(slices.Clip(waits), view.Wait{Waiter: w.By.Owner, Holder: next, Locks: []string{"for its job"}})
			}
		}
	}
	slices.SortStableFunc(waits, func(a, b view.Wait) int {
		first := func(w view.Wait) int {
			if stuck[[2]string{w.Waiter, w.Holder}] {
				return 0
			}
			return 1
		}
		return cmp.Compare(first(a), first(b))
	})
	var p picture
	out := map[string][]string{} // whom each owner waits for
	var owners []string
	left := map[string]bool{}
	for _, w := range waits {
		for _, o := range []string{w.Waiter, w.Holder} {
			if _, known := out[o]; !known {
				if len(owners) == mostBoxes {
					left[o] = true
					continue
				}
				owners, out[o] = append(owners, o), nil
			}
		}
		if !left[w.Waiter] && !left[w.Holder] {
			out[w.Waiter] = append(out[w.Waiter], w.Holder)
		}
	}
	p.Left = len(left)
	columns := map[int][]string{}
	rank := ranks(owners, out)
	last := 0
	for _, o := range owners {
		columns[rank[o]] = append(columns[rank[o]], o)
		last = max(last, rank[o])
	}
	at := map[string]box{}
	for c, column := range columns {
		for i, o := range column {
			at[o] = box{Owner: o, X: margin + (last-c)*columnStep, Y: margin + i*rowStep}
			p.Height = max(p.Height, at[o].Y+boxHeight+margin)
		}
	}
	p.Width = 2*margin + last*columnStep + boxWidth
	for _, w := range waits {
		from, known := at[w.Waiter]
		to, also := at[w.Holder]
		if !known || !also {
			continue
		}
		a := arrow{Wait: w, Stuck: stuck[[2]string{w.Waiter, w.Holder}], Title: view.Plain(strings.Join(w.Locks[:min(len(w.Locks), 20)], ", "))}
		a.Label = clip(w.Locks[0], 18)
		if n := len(w.Locks) - 1; n > 0 {
			a.Label += fmt.Sprintf(" +%d", n)
		}
		if a.Stuck {
			from.Stuck, to.Stuck = true, true
			at[w.Waiter] = from
			box := at[w.Holder]
			box.Stuck = true
			at[w.Holder] = box
		}
		a.Path, a.LabelX, a.LabelY = curve(from, to)
		p.Height = max(p.Height, a.LabelY+margin)
		p.Arrows = append(p.Arrows, a)
	}
	for _, o := range owners {
		p.Boxes = append(p.Boxes, at[o])
	}
	return p
}

// ranks is how far each owner is from one who waits for no other; a way that comes back to itself is not followed.
func ranks(owners []string, out map[string][]string) map[string]int {
	rank, under := map[string]int{}, map[string]bool{}
	var of func(o string) int
	of = func(o string) int {
		if r, known := rank[o]; known {
			return r
		}
		under[o] = true
		r := 0
		for _, to := range out[o] {
			if !under[to] {
				r = max(r, of(to)+1)
			}
		}
		delete(under, o)
		rank[o] = r
		return r
	}
	for _, o := range owners {
		of(o)
	}
	return rank
}

// curve goes from the right side of a box to the left side of another; one that leads back goes below both.
func curve(from, to box) (path string, x, y int) {
	y1, y2 := from.Y+boxHeight/2, to.Y+boxHeight/2
	if from.X < to.X {
		x1, x2 := from.X+boxWidth, to.X
		mid := (x1 + x2) / 2
		return fmt.Sprintf("M%d,%d C%d,%d %d,%d %d,%d", x1, y1, mid, y1, mid, y2, x2-2, y2), mid, (y1+y2)/2 - 5
	}
	x1, x2 := from.X+boxWidth/2, to.X+boxWidth/2
	low := max(from.Y, to.Y) + boxHeight
	depth := low + rowStep/2 + boxHeight/2
	return fmt.Sprintf("M%d,%d C%d,%d %d,%d %d,%d", x1, from.Y+boxHeight, x1, depth, x2, depth, x2, to.Y+boxHeight+2), (x1 + x2) / 2, depth - rowStep/4
}
