package ident

import (
	"strings"
	"testing"
)

// Promise: no name becomes a piece of SQL: between its marks every mark is doubled, and nothing else changes.
func FuzzColumn(f *testing.F) {
	for _, name := range []string{"items", "a.b", "x` = 1; drop table items; --", `say "so"`, "``", "", "\xff", "größe"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, mark := range []string{"`", `"`} {
			quoted, err := Column(name, mark[0])
			if err != nil {
				continue
			}
			inside, begins := strings.CutPrefix(quoted, mark)
			inside, ends := strings.CutSuffix(inside, mark)
			plain := strings.ReplaceAll(inside, mark+mark, "")
			if !begins || !ends || strings.Contains(plain, mark) || strings.ReplaceAll(inside, mark+mark, mark) != name {
				t.Errorf("%q is quoted as %s", name, quoted)
			}
		}
	})
}
