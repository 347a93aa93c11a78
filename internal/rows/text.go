package rows

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckText refuses a text that some database cannot store as a key of so many bytes at most.
func CheckText(what, text string, most int) error {
	switch {
	case text == "" || len(text) > most:
		return fmt.Errorf("the %s has %d bytes, 1 to %d are allowed", what, len(text), most)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return errors.New("the " + what + " is not UTF-8, or has a zero byte")
	}
	return nil
}
