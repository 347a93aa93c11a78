package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

func newValue(o *options) *cobra.Command {
	return storedGroup(o, "value", "A small shared value with versions",
		valueGet(o), valueSet(o), valueDelete(o), valueWatch(o))
}

// valueJSON is how programs see a value. Versions are decimal strings, as
// tokens are. What is no text is in Base64, and then there is no Value.
type valueJSON struct {
	Name    string  `json:"name"`
	Exists  bool    `json:"exists"`
	Version string  `json:"version"`
	Value   *string `json:"value,omitempty"`
	Base64  []byte  `json:"base64,omitempty"`
}

func valueGet(o *options) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:        "get NAME",
		SuggestFor: []string{"show"},
		Short:      "Write the value; --json gives its version too",
		Long: `Get writes the value and a line feed, on a terminal without what would steer that, or with
--raw the value alone, as "value set NAME -" reads it; with --json also its version, and
whether it exists. What is no text is in base64 there. Exit status: 66 if it does not exist.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if raw && o.json {
				return usage("--raw and --json exclude each other")
			}
			return o.with(func(ctx context.Context, t task) error {
				got, err := t.value().Get(ctx)
				if err != nil {
					return err
				}
				switch {
				case raw && got.Exists:
					_, err = cmd.OutOrStdout().Write(got.Value)
				case got.Exists || o.json:
					err = o.value(cmd, args[0], got)
				}
				if err == nil && !got.Exists {
					err = failed(exitAbsent, fmt.Errorf("value %s does not exist", args[0]))
				}
				return err
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the value as it is, without a line feed")
	return cmd
}

func (o *options) value(cmd *cobra.Command, name string, got interlock.Snapshot[[]byte]) error {
	out := cmd.OutOrStdout()
	if !o.json {
		if isTerminal(out) {
			out = people{out}
		}
		_, err := fmt.Fprintf(out, "%s\n", got.Value)
		return err
	}
	v := valueJSON{Name: name, Exists: got.Exists, Version: strconv.FormatUint(got.Version, 10)}
	switch text := string(got.Value); {
	case !got.Exists:
	case utf8.ValidString(text):
		v.Value = &text
	default:
		v.Base64 = got.Value
	}
	return writeJSON(out, v)
}

func valueSet(o *options) *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use:   "set NAME VALUE",
		Short: "Set the value, and write its new version",
		Long: `Set replaces the value, whatever it is; with --version only if it has that version still,
else it exits with 75. VALUE - reads standard input.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			data := []byte(args[1])
			if args[1] == "-" {
				var err error
				// One byte more than fits shows that it is too much.
				if data, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), driver.MaxCell+1)); err != nil {
					return failed(exitIO, err)
				}
				if len(data) > driver.MaxCell {
					return usage("standard input has more than %d bytes, the most that a value has", driver.MaxCell)
				}
			}
			return o.with(func(ctx context.Context, t task) error {
				got, err := change(ctx, t, version, func(over uint64) (uint64, error) { return t.value().Set(ctx, data, over) })
				if err != nil {
					return err
				}
				return o.print(cmd, valueJSON{Name: t.name, Exists: true, Version: strconv.FormatUint(got, 10)}, "%d", got)
			})(cmd, args)
		},
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "only if it has this version; 0: if it does not exist")
	return cmd
}

func valueDelete(o *options) *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete the value",
		Long: `Delete removes the value, whatever it is; with --version only if it has that version
still, else it exits with 75.`,
		RunE: o.with(func(ctx context.Context, t task) error {
			_, err := change(ctx, t, version, func(over uint64) (uint64, error) { return 0, t.value().Delete(ctx, over) })
			return o.done(err, t, valueJSON{Name: t.name, Version: "0"}, "")
		}),
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "only if it has this version")
	return cmd
}

func (t task) value() *interlock.Value[[]byte] { return interlock.NewValue[[]byte](t.Client, t.name) }

// change replaces the version that the user gave, or else whichever is current.
func change(ctx context.Context, t task, version uint64, do func(uint64) (uint64, error)) (uint64, error) {
	if t.cmd.Flags().Changed("version") {
		got, err := do(version)
		if errors.Is(err, interlock.ErrConflict) {
			return 0, failed(exitBusy, err)
		}
		return got, err
	}
	for {
		current, err := t.value().Get(ctx)
		if err != nil {
			return 0, err
		}
		if got, err := do(current.Version); !errors.Is(err, interlock.ErrConflict) {
			return got, err
		}
	}
}

func valueWatch(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "watch NAME",
		Short: "Write the value, and again after every change, until interrupted",
		RunE: o.streams(func(ctx context.Context, t task) error {
			for got, err := range t.value().Watch(ctx) {
				if err == nil {
					err = o.value(t.cmd, t.name, got)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
}
