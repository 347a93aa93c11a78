package sqlitelock

const setOFD = 90 // F_OFD_SETLK
