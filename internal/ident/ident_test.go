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
