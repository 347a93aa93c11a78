package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/socket"
)

// serve puts the world behind a socket, so that the rules about processes have
// something to be tried on here.
func serve(world func(testing.TB) World) func(testing.TB) World {
	return func(t testing.TB) World {
		path := socket.Serve(t, world(t).Open)
		return World{
			Open: func(ctx context.Context) (driver.Driver, error) { return socket.Dial(ctx, path) },
			URL:  "socket://" + path,
		}
	}
}

const onlyProcesses = "the socket is only for rules about processes"

var behindASocket = and(inMemory, map[string]string{
	"HangingBackend":         onlyProcesses,
	"LateAnswers":            onlyProcesses,
	"LostAnswers":            onlyProcesses,
	"SignalsBeforeTheAnswer": onlyProcesses,
})

func TestMemlockBehindASocket(t *testing.T) {
	Run(t, Backend{World: serve(memory), Unsupported: behindASocket, TTL: 300 * time.Millisecond, Shape: "mutex", Small: true})
}
