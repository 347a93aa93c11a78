package sqlitelock

const setOFD = 37 // F_OFD_SETLK
