package ident

import "strconv"

// Syntax is how a database writes names and the places of arguments.
type Syntax struct {
	mark     byte
	numbered bool
}

// The databases. SQLite takes a misspelt name in double quotes for a text, and
// would compare that with what the column should hold; backticks always mean a
// name.
var (
	SQLite     = Syntax{mark: '`'}
	MySQL      = Syntax{mark: '`'}
	PostgreSQL = Syntax{mark: '"', numbered: true}
)

// Table quotes the name of a table, which may be qualified: schema.table.
func (s Syntax) Table(name string) (string, error) { return Table(name, s.mark) }

// Column quotes the name of a column.
func (s Syntax) Column(name string) (string, error) { return Column(name, s.mark) }

// Param is the place of the n-th argument, from 1.
func (s Syntax) Param(n int) string {
	if s.numbered {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}
