package drivertest

// rules is the suite, those that must be alone first.
var rules = []rule{
	exclusion,
	exclusionWithinASession,
	prefixOfTheQueue,
	readersAndWriters,
	largestCapacity,
	heldStaysHeld,
	order,
	noBarging,
	mismatch,
	impossibleRequests,
	joinIsIdempotent,
	noWait,
	noWaitKeepsOrder,
	leaveIsIdempotent,
	leaveBeforeItsJoin,
	leftStaysLeft,
	leaveGrantsTheNext,
	foreignLeave,
	awaitReturnsOnceHeld,
	awaitOfAGoneTicket,
	awaitDoesNotLeave,
	shrink,
	shrinkNeverGrows,
}
