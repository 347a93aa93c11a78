module github.com/interlock-go/interlock/cmd/interlock

go 1.25.0

require (
	github.com/chromedp/cdproto v0.0.0-20250724212937-08a3db8b4327
	github.com/chromedp/chromedp v0.14.2
	github.com/creack/pty v1.1.24
	github.com/gdamore/tcell/v2 v2.13.10
	github.com/interlock-go/interlock v0.0.0
	github.com/interlock-go/interlock/adapter v0.0.0
	github.com/interlock-go/interlock/backend/etcdlock v0.0.0
	github.com/interlock-go/interlock/backend/sqlitelock v0.0.0
	github.com/interlock-go/interlock/examples v0.0.0
	github.com/jedib0t/go-pretty/v6 v6.8.3
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/yuin/goldmark v1.8.2
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/sys v0.47.0
	golang.org/x/term v0.45.0
	mvdan.cc/sh/v3 v3.12.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/chromedp/sysutil v1.1.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.5.0 // indirect
	github.com/gdamore/encoding v1.0.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/pool v0.2.1 // indirect
	github.com/gobwas/ws v1.4.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.26.3 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/lucasb-eyer/go-colorful v1.3.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	go.etcd.io/etcd/api/v3 v3.6.13 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.13 // indirect
	go.etcd.io/etcd/client/v3 v3.6.13 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/tools v0.48.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260122232226-8e98ce8d340d // indirect
	google.golang.org/grpc v1.79.3 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

require (
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/interlock-go/interlock/backend/mysqllock v0.0.0
	github.com/interlock-go/interlock/backend/pglock v0.0.0
	github.com/interlock-go/interlock/backend/redislock v0.0.0
	github.com/interlock-go/interlock/backend/zklock v0.0.0
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/rivo/uniseg v0.4.7
	github.com/rogpeppe/go-internal v1.16.0
	golang.org/x/sync v0.22.0
	golang.org/x/text v0.41.0 // indirect
	modernc.org/libc v1.75.7 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.59.0 // indirect
	zombiezen.com/go/sqlite v1.4.2 // indirect
)

replace github.com/interlock-go/interlock/adapter => ../../adapter

replace github.com/interlock-go/interlock/adapter/cronlock => ../../adapter/cronlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../../backend/mysqllock

replace github.com/interlock-go/interlock/backend/pglock => ../../backend/pglock

replace github.com/interlock-go/interlock/backend/sqlitelock => ../../backend/sqlitelock

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock

replace github.com/interlock-go/interlock/adapter/clientgolock => ../../adapter/clientgolock

replace github.com/interlock-go/interlock/adapter/gocronlock => ../../adapter/gocronlock

replace github.com/interlock-go/interlock/adapter/tusdlock => ../../adapter/tusdlock

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/backend/etcdlock => ../../backend/etcdlock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../../backend/redislock/goredis

replace github.com/interlock-go/interlock/backend/zklock => ../../backend/zklock

replace github.com/interlock-go/interlock => ../..

replace github.com/interlock-go/interlock/backend/redislock => ../../backend/redislock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../rowlock/pgxrow

replace github.com/interlock-go/interlock/drivertest => ../../drivertest
