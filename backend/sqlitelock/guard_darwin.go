package sqlitelock

import "syscall"

const setOFD = 90 // F_OFD_SETLK

func changed(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }
