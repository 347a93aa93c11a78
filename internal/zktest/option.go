package zktest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Option changes how a server is started.
type Option func(*settings)

type settings struct {
	lines   [][2]string
	jvm     []string
	durable bool
	tls     bool
	ca      *testserver.Authority // nil: one of its own
}

// Config adds a line to the server's configuration file. A later line
// overrides an earlier one. A key that ZooKeeper does not know is for it the
// system property of that name with "zookeeper." in front.
func Config(key, value string) Option {
	return func(s *settings) { s.lines = append(s.lines, [2]string{key, value}) }
}

// JVM adds arguments for the Java machine. By default it starts fast and stays
// small: JVM("-Xmx1g", "-XX:TieredStopAtLevel=4") makes it a server for
// benchmarks.
func JVM(args ...string) Option {
	return func(s *settings) { s.jvm = append(s.jvm, args...) }
}

// Property sets a system property of the Java machine.
func Property(key, value string) Option { return JVM("-D" + key + "=" + value) }

// Durable lets every write wait for the disk. Without it a write survives the
// death of the server, but not that of the machine.
func Durable() Option { return func(s *settings) { s.durable = true } }

// Tick sets the unit of the server's time, which is 200 ms otherwise. Sessions
// end at the next whole tick. Their shortest and longest timeouts are 2 and 200
// ticks, which Config("minSessionTimeout", milliseconds) and
// Config("maxSessionTimeout", milliseconds) change.
func Tick(d time.Duration) Option {
	return func(s *settings) {
		ms := d.Milliseconds()
		Config("tickTime", strconv.FormatInt(ms, 10))(s)
		Config("minSessionTimeout", strconv.FormatInt(2*ms, 10))(s)
		Config("maxSessionTimeout", strconv.FormatInt(200*ms, 10))(s)
	}
}

// MaxBuffer sets how many bytes of data a request or a node may have, about.
// It is a million otherwise.
func MaxBuffer(bytes int) Option { return Property("jute.maxbuffer", strconv.Itoa(bytes)) }

// Containers sets how often the server looks for containers that have become
// empty, which is once a minute otherwise.
func Containers(every time.Duration) Option {
	return Property("znode.container.checkIntervalMs", strconv.FormatInt(every.Milliseconds(), 10))
}

// file is the text of the configuration file, without the addresses.
func (s *settings) file(data string) string {
	var all settings
	Tick(200 * time.Millisecond)(&all)
	sync := "no"
	if s.durable {
		sync = "yes"
	}
	all.lines = append(all.lines, [][2]string{
		{"dataDir", data},
		{"forceSync", sync},
		{"maxClientCnxns", "0"}, // any number of clients from one address
		{"admin.enableServer", "false"},
		{"4lw.commands.whitelist", "*"},
	}...)
	var b strings.Builder
	for _, line := range append(all.lines, s.lines...) {
		fmt.Fprintf(&b, "%s=%s\n", escape(line[0]), escape(line[1]))
	}
	return b.String()
}

// escape makes one word of a file of Java properties.
func escape(word string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(word)
}

// command is the command line, for a configuration file.
func (s *settings) command(file string) []string {
	args := []string{
		"-Xmx256m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		// Servers that miss each other's votes would say them again after up to a minute.
		"-Dzookeeper.fastleader.maxNotificationInterval=500",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.showShortLogName=true",
	}
	args = append(args, s.jvm...)
	return append(args, "-cp", strings.Join(jars, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
}
