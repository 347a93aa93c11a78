package zklock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Open opens a driver as package driver does it for the registered schemes.
var Open = open

// RememberSwaps has a driver forget swaps after another time than a client may rely on.
func RememberSwaps(d driver.Driver, memory time.Duration) { d.(*Driver).memory = memory }
