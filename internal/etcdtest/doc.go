// Package etcdtest starts real servers of etcd for tests and benchmarks: one member, or a cluster, of the etcd that
// is installed or of a current one. The current one is built by the module in the folder current, which is outside
// the workspace, since the versions that it needs would bend those of all others.
//
// Members listen on free ports of the loopback interface only, keep their data in a temporary
// folder, and end with the test; on Linux also with the test process, however that ends.
package etcdtest
