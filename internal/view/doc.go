// Package view is what tools show of a backend. The commands ls, show, watch and top, the page and its metrics all read
// locks through it.
//
//   - [Stored] and [Name] are what is stored, and all that has one name: for people, and as JSON.
//   - [Choice] filters, sorts and pages locks.
//   - [Sampler] lists the locks of a backend for all who look, as seldom as their number demands.
//   - [Often] reads the one lock that is open.
//   - [History] is what samples tell apart: grants and how they ended, and episodes, the waits of one waiter for one holder.
//   - [Waits] is who waits for whom.
//
// A sample is a list of [interlock.Queue]. Nothing here changes a backend.
package view
