package memlock

import "context"

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

// watch waits until news says that there are some, and asks it again whenever the bell of that name has rung.
func watch[Res any](ctx context.Context, d *Driver, method string, b bells, name string,
	news func() (Res, bool)) (Res, error) {
	w := d.world
	w.mu.Lock()
	l := b[name]
	if l == nil {
		l = &listened{}
		b[name] = l
	}
	l.listeners++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if l.listeners--; l.listeners == 0 {
			delete(b, name)
		}
	}()
	return wait(ctx, d, method, func() (res Res, _ *bell, err error) {
		if d.cut {
			return res, &d.healed, nil
		}
		d.exchanges++
		if res, some := news(); some {
			return res, nil, nil
		}
		return res, &l.bell, nil
	})
}

func (b bells) ring(name string) {
	if l := b[name]; l != nil {
		l.ring()
	}
}
