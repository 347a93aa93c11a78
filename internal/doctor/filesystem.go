package doctor

import (
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/trust"
)

// Filesystem looks whether all who see the files in a folder see their locks.
func Filesystem(folder string) driver.Finding {
	const promise = Exclusion
	kind, err := trust.Filesystem(folder)
	if err == nil {
		err = trust.Local(folder)
	}
	switch {
	case err != nil:
		return driver.Finding{Status: driver.Fail, Detail: err.Error(), Promise: promise, Remedy: "move the files to a disk of this machine"}
	case kind.Unknown:
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  kind.Name + ": it cannot be told whether others see the files, but not the locks",
			Promise: promise + ", if they are used on another machine, or through another mount of the folder",
			Remedy:  "use them on one machine and through one mount only, or move them to a disk",
		}
	}
	return Fine("%s", kind.Name)
}
