package main

// Of the backends, and of the guard.
var backends = []fault{
	{
		file: "backend/zklock/proof.go", test: "TestAProofCountsFromTheRequest",
		old: "max(t.proof, t.heard[0].sent)", new: "max(t.proof, t.heard[0].by)",
	},
	{
		file: "backend/zklock/proof.go", test: "TestASyncDoesNotProveWhatTheLeaderMayNotHaveHeardOf",
		old: "sent.Add(-t.timeout/4 - t.timeout/40)", new: "sent",
	},
	{
		file: "backend/redislock/lua/drop.lua", pkg: "backend/redislock", test: "TestWhatAReleaseLeavesBehindLivesLong",
		old: "3600 * 1000", new: "5 * 1000",
	},
	{
		file: "backend/redislock/lua/queue.lua", pkg: "backend/redislock", test: "TestAnotherLibraryRespectsALockThatIsRenewed",
		old: "call('PEXPIRE', LOCK, int(ttl / 1000 + 2))", new: "local _ = ttl",
	},
	{
		file: "backend/redislock/lua/join.lua", pkg: "backend/redislock", test: "TestARepetitionWithNoWaitLeavesNothing",
		old: "\t\tremove(r, true)\n\t\tgrant()\n\t\treturn reply(BUSY)", new: "\t\treturn reply(BUSY)",
	},
	{
		file: "backend/redislock/renew.go", test: "TestConformance$/LostMessages",
		old: "state != stateGone && !fixed", new: "state != stateGone && state != stateFixed",
	},
	{
		file: "backend/redislock/renew.go", test: "TestARenewalOutlastsAPauseOfItsNode",
		old: "if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {", new: "if ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded) {",
	},
	{
		file: "internal/sqlqueue/renew.go", pkg: "backend/pglock", test: "TestConformance$/LateAnswers",
		old: "s.renewed(sent)\n\tfound := s.see(asked, first, sent, sent)",
		new: "sent = driver.Now()\n\ts.renewed(sent)\n\tfound := s.see(asked, first, sent, sent)",
	},
	{
		file: "cmd/interlock/internal/guard/family_linux.go", test: "TestAReusedPidIsNotKilled",
		old: "|| state.parent != parent && state.parent != me {", new: "{",
	},
}
