// Package sqltest checks packages fence, once and rowlock against real databases.
// They are part of the root module, which requires no driver for any.
package sqltest
