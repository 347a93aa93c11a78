// Package etcdtest starts real servers of etcd for tests and benchmarks: one member, or a cluster.
//
// Members listen on free ports of the loopback interface only, keep their data in a temporary
// folder, and end with the test; on Linux also with the test process, however that ends.
package etcdtest
