package memlock

// bell wakes everybody who waits for it. The world's mutex guards it.
type bell struct{ c chan struct{} }

func (b *bell) wait() <-chan struct{} {
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) ring() {
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

// bells are those of names, as long as somebody listens.
type bells map[string]*listened

type listened struct {
	bell
	listeners int
}

func (b bells) listen(name string) {
	if b[name] == nil {
		b[name] = &listened{}
	}
	b[name].listeners++
}

func (b bells) unlisten(name string) {
	if b[name].listeners--; b[name].listeners == 0 {
		delete(b, name)
	}
}

func (b bells) ring(name string) {
	if len(b) == 0 {
		return
	}
	if l := b[name]; l != nil {
		l.ring()
	}
}
