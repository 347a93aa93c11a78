package primitives

// rules is the suite, with those in front that are alone or take longest.
var rules = []rule{
	busyHolder,
	healthy,
	fiveContenders,
	killedHolder, killedWaiter, stoppedHolder, killedAdoption, killedLeader, killedMember,
	cutOff, shortOutage, outageOfAWait, retrying,
	exclusion, order, tokens, cancellation, bounds,
	thirtyNumbers, thirtyInProcesses,
	readersAndWriters, noOvertaking, downgrade,
	permits, shrinking, setPermits, setPermitsStay, mismatch,
	reentrancy, deadlock, deadlocks, held, heldByTheClient, work,
	hold, extension, adoption, atLeast, atMost,
	robustness, robustReaders,
	election, leaderValue, observing,
	revocation, eviction, evictedWaiter, force, overrunning,
	barrier, doubleBarrier, returning, latch,
	values, watching,
	striping, stickiness,
	inspection,
	stored,
	closing,
}
