// Package adaptertest is the tests of the adapters with the real libraries. It is a module of its own, outside the
// workspace: what the libraries require would bend the versions of all others.
package adaptertest
