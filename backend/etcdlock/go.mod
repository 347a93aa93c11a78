module github.com/interlock-go/interlock/backend/etcdlock

go 1.25.0

require github.com/interlock-go/interlock v0.0.0

require (
	github.com/interlock-go/interlock/drivertest v0.0.0
	go.etcd.io/etcd/api/v3 v3.6.13
	go.etcd.io/etcd/client/v3 v3.6.13
	go.uber.org/zap v1.27.0
	google.golang.org/grpc v1.79.3
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.5.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.26.3 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.13 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/net v0.54.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.37.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/interlock-go/interlock => ../..

replace github.com/interlock-go/interlock/adapter => ../../adapter

replace github.com/interlock-go/interlock/adapter/clientgolock => ../../adapter/clientgolock

replace github.com/interlock-go/interlock/adapter/cronlock => ../../adapter/cronlock

replace github.com/interlock-go/interlock/adapter/gocronlock => ../../adapter/gocronlock

replace github.com/interlock-go/interlock/adapter/tusdlock => ../../adapter/tusdlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../mysqllock

replace github.com/interlock-go/interlock/backend/pglock => ../pglock

replace github.com/interlock-go/interlock/backend/redislock => ../redislock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../redislock/goredis

replace github.com/interlock-go/interlock/backend/sqlitelock => ../sqlitelock

replace github.com/interlock-go/interlock/backend/zklock => ../zklock

replace github.com/interlock-go/interlock/cmd/interlock => ../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../drivertest

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../rowlock/pgxrow
