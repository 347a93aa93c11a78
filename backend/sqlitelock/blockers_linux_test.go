package sqlitelock_test

const blockersAreKnown = true
