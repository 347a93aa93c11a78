package engine

import "iter"

// list is a list of things that have their node in themselves: to add one allocates nothing.
type list[T any] struct{ first, last *node[T] }

// node is the place of a thing in a list.
type node[T any] struct {
	of         *T // nil: it is in no list
	prev, next *node[T]
}

func (n *node[T]) listed() bool { return n.of != nil }

func (l *list[T]) empty() bool { return l.first == nil }

// push adds a thing, by its node, at the end.
func (l *list[T]) push(n *node[T], of *T) {
	n.of, n.prev = of, l.last
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// remove takes a thing off the list, if it is there.
func (l *list[T]) remove(n *node[T]) {
	if n.of == nil {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	*n = node[T]{}
}

// all yields what is in the list. The one that is yielded may be taken off the list meanwhile.
func (l *list[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := l.first; n != nil; {
			of, next := n.of, n.next
			if !yield(of) {
				return
			}
			n = next
		}
	}
}
