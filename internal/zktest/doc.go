// Package zktest starts real ZooKeeper servers for tests and benchmarks, and
// disturbs them and the connections to them.
//
// Servers listen on free ports of the loopback interface only, keep their data
// in a temporary folder, and end with the test; on Linux also with the test
// process, however that ends. They need Java and the jars of Debian's package
// libzookeeper-java.
//
// Methods that return no error end the test if they fail, or panic where there
// is no test.
package zktest
