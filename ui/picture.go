package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// picture is who waits for whom: boxes in columns, from who waits on the left to who waits for no other on the right.
type picture struct {
	Boxes         []*box
	Arrows        []arrow
	Width, Height int
	Left          int // programs that are not shown
}

type box struct {
	Owner string
	X, Y  int
	Stuck bool // in a deadlock

	waits  []*box // for these
	column int    // from the right; 0 until it is known
	under  bool   // it is being found out
}

// place finds the column: left of all boxes that are waited for. A way that comes back to itself is not followed.
func (b *box) place() int {
	if b.column == 0 {
		b.under = true
		column := 1
		for _, to := range b.waits {
			if !to.under {
				column = max(column, to.place()+1)
			}
		}
		b.column, b.under = column, false
	}
	return b.column
}

type arrow struct {
	view.Wait
	Path           string
	LabelX, LabelY int
	Stuck          bool
	Label, Title   string
}

const (
	mostBoxes  = 40
	boxWidth   = 190
	boxHeight  = 34
	columnStep = 330
	rowStep    = 62
	margin     = 20
)

// draw lays a picture out. Of too many programs it shows those of deadlocks, and then those with the most waiters.
func draw(waits []view.Wait, deadlocks []interlock.Deadlock) (p picture) {
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
	for _, first := range []bool{true, false} {
		for _, w := range waits {
			if a := (arrow{Wait: w, Stuck: stuck[[2]string{w.Waiter, w.Holder}]}); a.Stuck == first {
				p.Arrows = append(p.Arrows, a)
			}
		}
	}
	boxes, left := map[string]*box{}, map[string]bool{}
	for _, a := range p.Arrows {
		for _, o := range []string{a.Waiter, a.Holder} {
			switch {
			case boxes[o] != nil:
			case len(boxes) == mostBoxes:
				left[o] = true
			default:
				boxes[o] = &box{Owner: o}
				p.Boxes = append(p.Boxes, boxes[o])
			}
		}
		if from, to := boxes[a.Waiter], boxes[a.Holder]; from != nil && to != nil {
			from.waits = append(from.waits, to)
			from.Stuck, to.Stuck = from.Stuck || a.Stuck, to.Stuck || a.Stuck
		}
	}
	p.Left = len(left)
	last, high := 1, map[int]int{}
	for _, b := range p.Boxes {
		last = max(last, b.place())
	}
	for _, b := range p.Boxes {
		b.X, b.Y = margin+(last-b.column)*columnStep, margin+high[b.column]*rowStep
		high[b.column]++
		p.Height = max(p.Height, b.Y+boxHeight+margin)
	}
	p.Width = 2*margin + (last-1)*columnStep + boxWidth
	p.Arrows = slices.DeleteFunc(p.Arrows, func(a arrow) bool { return left[a.Waiter] || left[a.Holder] })
	for i := range p.Arrows {
		a := &p.Arrows[i]
		a.Title, a.Label = view.Plain(strings.Join(a.Locks[:min(len(a.Locks), 20)], ", ")), clip(a.Locks[0], 18)
		if n := len(a.Locks) - 1; n > 0 {
			a.Label += fmt.Sprintf(" +%d", n)
		}
		a.Path, a.LabelX, a.LabelY = curve(boxes[a.Waiter], boxes[a.Holder])
		p.Height = max(p.Height, a.LabelY+margin)
	}
	return p
}

// curve goes from the right side of a box to the left side of another; one that leads back goes below both.
func curve(from, to *box) (path string, x, y int) {
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
