package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func init() { driver.Register("sqlite", open, "mode") }

func open(ctx context.Context, u *driver.URL) (driver.Driver, error) {
	mode := u.Int("mode", 8, defaultMode)
	if err := u.Check(); err != nil {
		return nil, err
	}
	if len(u.Hosts) > 0 || u.User != nil {
		return nil, driver.Invalid(errors.New("sqlite: the URL has a host; write sqlite:relative.db or sqlite:///absolute/locks.db"))
	}
	if mode < 0 || mode > 0o777 {
		return nil, driver.Invalid(errors.New("sqlite: mode is not between 0 and 777"))
	}
	path := u.Path
	if filepath.VolumeName(strings.TrimPrefix(path, "/")) != "" { // sqlite:///C:/locks.db
		path = strings.TrimPrefix(path, "/")
	}
	return New(ctx, path, Mode(fs.FileMode(mode)))
}

// Option changes how a file is opened.
type Option func(*config)

type config struct {
	mode      fs.FileMode
	noSockets bool   // for tests
	apart     string // for tests: clients with another one do not share the file
}

// key names the file in the process.
func (c config) key(path string) string { return fmt.Sprint(path, c.noSockets, c.apart) }

const defaultMode = 0o600

// Mode sets the permissions of a file that is made; that of an existing one is
// kept. The owner can always read and write. With Mode(0660) the folder should
// have the set-group-ID bit, so that all files get its group.
func Mode(m fs.FileMode) Option { return func(c *config) { c.mode = m.Perm() | 0o600 } }

// New opens the file at path, and makes it if there is none. Anything but an
// ordinary file of this package on a local file system, in a place where nobody
// else can replace it, is refused with a permanent error and not changed.
func New(ctx context.Context, path string, opts ...Option) (driver.Driver, error) {
	c := config{mode: defaultMode}
	for _, o := range opts {
		o(&c)
	}
	s, err := openStore(ctx, path, c)
	if err != nil {
		return nil, err
	}
	return exchange.New(s, s.mailbox.Name), nil
}
