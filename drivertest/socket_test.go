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

var behindASocket = map[string]string{
	"HangingBackend":         "the socket is only for rules about processes",
	"LateAnswers":            "the socket is only for rules about processes",
	"LostAnswers":            "the socket is only for rules about processes",
	"SignalsBeforeTheAnswer": "the socket is only for rules about processes",
	"UnreachableBackend":     "memory is always there",
	"LostMessages":           "in one process no message is lost",
}

func TestMemlockBehindASocket(t *testing.T) {
	Run(t, Backend{World: serve(memory), Unsupported: behindASocket, TTL: 300 * time.Millisecond, Shape: "mutex", Small: true})
}
