package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

func init() { driver.Register("quorum", open) }

// open opens quorum:?member=URL&member=URL&member=URL. A member that cannot be reached now is opened later,
// but not if that would bring the same error again.
func open(ctx context.Context, u *driver.URL) (driver.Driver, error) {
	texts := u.Texts("member")
	if err := u.Check(); err != nil {
		return nil, err
	}
	if len(u.Hosts) > 0 || u.User != nil || u.Path != "" {
		return nil, driver.Invalid(errors.New("quorum: has no host; write quorum:?member=URL&member=URL&member=URL (interlock admin quorum-url URL… prints it)"))
	}
	var members []*member
	seen := map[string]int{}
	for i, text := range texts {
		m, err := newMember(text)
		if err != nil {
			return nil, driver.Invalid(fmt.Errorf("member %d: %w", i+1, err))
		}
		if first, twice := seen[text]; twice {
			return nil, driver.Invalid(fmt.Errorf("member %d: %w: it is member %d, too", i+1, errSameTwice, first))
		}
		seen[text] = i + 1
		members = append(members, m)
	}
	d, err := newDriver(members)
	if err != nil {
		return nil, err
	}
	if err := d.openMembers(ctx); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

func newMember(text string) (*member, error) {
	parse := func() (*driver.URL, error) {
		u, err := driver.ParseURL(text)
		if err != nil {
			return nil, fmt.Errorf("%w (a member's URL is percent-encoded as a whole: interlock admin quorum-url URL… does that)", err)
		}
		if u.Scheme == "quorum" {
			return nil, errors.New("a member is not a quorum itself")
		}
		for _, option := range []string{"ttl", "owner"} {
			if u.Text(option, "") != "" {
				return nil, fmt.Errorf("the option %s is written once, behind all members: quorum:?member=…&%s=…", option, option)
			}
		}
		u.Text("prefix", "")
		return u, nil
	}
	u, err := parse()
	if err != nil {
		return nil, err
	}
	return &member{
		name: u.String(),
		busy: make(chan struct{}, 1),
		open: func(ctx context.Context) (driver.Driver, error) {
			u, err := parse() // options are taken once
			if err != nil {
				return nil, err
			}
			return driver.OpenURL(ctx, u)
		},
	}, nil
}

// openMembers tries to open all members, and finds the one that can never be opened.
func (d *Driver) openMembers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	errs := make([]error, len(d.members))
	var all sync.WaitGroup
	for i, m := range d.members {
		all.Go(func() { _, errs[i] = m.driver(ctx) })
	}
	all.Wait()
	var why []string
	for i, err := range errs {
		switch {
		case errors.Is(err, driver.ErrInvalid):
			return fmt.Errorf("%s: %w", d.members[i].name, err)
		case err != nil:
			why = append(why, d.members[i].name+": "+err.Error())
		}
	}
	if good := len(d.members) - len(why); good < d.majority {
		return errTooFew(good, len(d.members), why)
	}
	return nil
}
