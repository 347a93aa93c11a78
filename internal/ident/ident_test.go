package ident

import (
	"strings"
	"testing"
)

func TestNamesAreQuotedOrRefused(t *testing.T) {
	for _, c := range []struct {
		name, table, column string // "" where the name is refused
	}{
		{"items", "`items`", "`items`"},
		{"order", "`order`", "`order`"},
		{"main.items", "`main`.`items`", "`main.items`"},
		{"a b", "`a b`", "`a b`"},
		{"x` = 1; drop table items; --", "`x`` = 1; drop table items; --`", "`x`` = 1; drop table items; --`"},
		{`say "so"`, "`say \"so\"`", "`say \"so\"`"},
		{"größe", "`größe`", "`größe`"},
		{"", "", ""},
		{".items", "", "`.items`"},
		{"a.b.c.d", "", "`a.b.c.d`"},
		{"a\x00b", "", ""},
		{"a\nb", "", ""},
		{"a\xffb", "", ""},
		{strings.Repeat("x", 63), "`" + strings.Repeat("x", 63) + "`", "`" + strings.Repeat("x", 63) + "`"},
		{strings.Repeat("x", 64), "", ""},
	} {
		check := func(kind, got string, err error, want string) {
			if (err != nil) != (want == "") || got != want {
				t.Errorf("%s %q: got %s, %v; want %s", kind, c.name, got, err, want)
			}
		}
		table, err := Table(c.name, '`')
		check("table", table, err, c.table)
		column, err := Column(c.name, '`')
		check("column", column, err, c.column)
	}
}

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
