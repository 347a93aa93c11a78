//go:build !unix

package flashsale

import (
	"errors"
	"os"
)

const canStop = false

func stopProcess(*os.Process) error     { return errors.ErrUnsupported }
func continueProcess(*os.Process) error { return errors.ErrUnsupported }
