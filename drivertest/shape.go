package drivertest

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/interlock-go/interlock/driver"
)

// A shape is a way to ask for mutual exclusion. Rules about exclusion hold in
// each of them.
type shape struct {
	name            string
	kind            driver.Kind
	units, capacity int64
}

var shapes = []shape{
	{"mutex", driver.Mutex, 1, 1},
	{"writers", driver.RWMutex, driver.RWCapacity, driver.RWCapacity},
	{"all permits", driver.Semaphore, 5, 5},
	{"election", driver.Election, 1, 1},
}

// newID is an identity for a ticket or a swap.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// exclusive asks for the whole queue, in the shape that is under check.
func (t *trial) exclusive(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: t.shape.kind, Units: t.shape.units, Capacity: t.shape.capacity, ReportDeath: true}
}

func permits(queue string, units, capacity int64) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.Semaphore, Units: units, Capacity: capacity, ReportDeath: true}
}

func reader(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.RWMutex, Units: 1, Capacity: driver.RWCapacity, ReportDeath: true}
}

func writer(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.RWMutex, Units: driver.RWCapacity, Capacity: driver.RWCapacity, ReportDeath: true}
}

// again is a request that may have been sent before.
func again(r driver.Request) driver.Request {
	r.Retry = true
	return r
}

// nowait is a request that does not stand in line.
func nowait(r driver.Request) driver.Request {
	r.NoWait = true
	return r
}
