package doctor

import (
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/trust"
)

// Filesystem looks whether all who see the files in a folder see their locks.
func Filesystem(folder string) driver.Finding {
	kind, err := trust.Filesystem(folder)
	if err == nil {
		err = trust.Local(folder)
	}
	switch {
	case err != nil:
		return Fail(Exclusion, "move the files to a disk of this machine", "%v", err)
	case kind.Unknown:
		return Warn(Exclusion+", if they are used on another machine, or through another mount of the folder",
			"use them on one machine and through one mount only, or move them to a disk", "%s: it cannot be told whether others see the files, but not the locks", kind.Name)
	}
	return Sound
}
