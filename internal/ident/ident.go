// Package ident quotes the names of tables and columns that callers give, so
// that no name can become a piece of SQL.
package ident

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBytes is PostgreSQL's limit, the smallest of the databases: it cuts
// longer names off without a word, so two of them could become one.
const maxBytes = 63

// Column quotes the name of a column with the given mark.
func Column(name string, mark byte) (string, error) {
	quoted, err := quote(name, mark)
	if err != nil {
		return "", fmt.Errorf("column %w", err)
	}
	return quoted, nil
}

// Table quotes the name of a table, which may be qualified: schema.table.
func Table(name string, mark byte) (string, error) {
	parts := strings.Split(name, ".")
	if len(parts) > 3 {
		return "", fmt.Errorf("table name %q has %d parts, at most 3 are allowed", name, len(parts))
	}
	for i, part := range parts {
		quoted, err := quote(part, mark)
		if err != nil {
			return "", fmt.Errorf("table %w", err)
		}
		parts[i] = quoted
	}
	return strings.Join(parts, "."), nil
}

func quote(name string, mark byte) (string, error) {
	switch {
	case name == "":
		return "", errors.New("name is empty")
	case len(name) > maxBytes:
		return "", fmt.Errorf("name %q has %d bytes, at most %d are allowed", name, len(name), maxBytes)
	case !utf8.ValidString(name):
		return "", fmt.Errorf("name %q is not UTF-8", name)
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return "", fmt.Errorf("name %q has a control character", name)
	}
	m := string(mark)
	return m + strings.ReplaceAll(name, m, m+m) + m, nil
}
