package main

// Of the backends, and of the guard.
var backends = []fault{
	{
		file: "backend/quorumlock/pursue.go", test: "TestAMemberThatGrantsNothingKeepsNobodyOut",
		old: "len(good) >= t.s.d.majority {", new: "false {",
	},
	{
		file: "backend/quorumlock/pursue.go", test: "TestAMemberThatGrantsNothingKeepsNobodyOut",
		old: " && t.isRefused():", new: ":",
	},
	{
		file: "backend/quorumlock/pursue.go", test: "TestAMemberThatGrantsNothingKeepsNobodyOut",
		old: "t.isRefused():", new: "false:",
	},
	{
		file: "backend/quorumlock/pursue.go", test: "TestALockJoinsAgainAsSoonAsAnEmptyMemberCounts",
		old: "p.err != nil && p.life == l.life", new: "p.err != nil",
	},
	{
		file: "backend/quorumlock/link.go", test: "TestALockJoinsAgainAsSoonAsAMemberCounts",
		old: "l.s.rejoin(l)", new: "",
	},
	{
		file: "backend/quorumlock/ticket.go", test: "TestAJoinThatComesLateBringsNoLockBack",
		old: "case t.state == held && t.standing(s.d.now()) < s.d.majority:", new: "case false:",
	},
	{
		file: "backend/quorumlock/renew.go", test: "TestAnEvictedLockDoesNotJoinAgain",
		old: "t.parting, t.evicted:", new: "t.parting:",
	},
	{
		file: "backend/quorumlock/renew.go", test: "TestAMemberThatGrantsNothingIsAskedWithTheHeartbeat",
		old: "t.state == held && !t.hasFailed(l) &&", new: "t.state == held &&",
	},
	{
		file: "backend/quorumlock/ticket.go", test: "TestAPlaceThatMissedKeepCountsForItsOwnTime",
		old: "p.proof.Add(t.s.span(p.hold)))", new: "p.proof.Add(t.s.span(t.hold)))",
	},
	{
		file: "backend/quorumlock/link.go", test: "TestAPlaceOfAFixedTimeIsGivenBackAfterItsSession",
		old: "if err != nil && !errors.Is(err, driver.ErrGone) { // also", new: "if err != nil && !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrSession) { // also",
	},
	{
		file: "backend/quorumlock/ticket.go", test: "TestAPlaceOfAFixedTimeIsGivenBackAfterItsSession",
		old: "if p.hold > 0 { // the place outlives the session", new: "if false {",
	},
	{
		file: "backend/quorumlock/renew.go", test: "TestALockJoinsAgainWhileAnotherMemberIsSilent",
		old: "t.restore() // also if", new: "if kept >= s.d.majority {\n\t\tt.restore()\n\t} // also if",
	},
	{
		file: "backend/quorumlock/renew.go", test: "TestAnEvictedWaiterDoesNotJoinAgain",
		old: "if p.state == waiting {", new: "if false {",
	},
	{
		file: "backend/quorumlock/inspect.go", test: "TestALockOfAFixedTimeIsNotGoneWhileAMemberIsSilent",
		old: "if why := failures(all); n+len(why) >= s.d.majority {", new: "if why := failures(all); false {",
	},
	{
		file: "backend/quorumlock/link.go", test: "TestALockIsTakenAgainAtAMemberThatHasEndedTheSession",
		old: "case p.state == waiting, p.state == granted && p.hold == 0:", new: "case p.state == waiting:",
	},
	{
		file: "backend/quorumlock/inspect.go", test: "TestTheSameEndIsTheSameState",
		old: "max(p-q, q-p) >= 100", new: "p != q",
	},
	{
		file: "backend/quorumlock/inspect.go", test: "TestTheSameEndIsTheSameState",
		old: "max(p-q, q-p) >= 100", new: "max(p-q, q-p) >= 10_000",
	},
	{
		file: "backend/quorumlock/inspect.go", test: "TestWhoTakesALockAwayHearsThatItMayStand",
		old: "if took && (what != driver.Force || unsure < d.majority) {", new: "if took {",
	},
	{
		file: "backend/quorumlock/inspect.go", test: "TestAMemberThatMissedAnEarlierEndProlongsNothing",
		old: "f.left[max(0, len(f.left)-d.majority)]", new: "f.left[len(f.left)-1]",
	},
	{
		file: "backend/quorumlock/link.go", test: "TestAnEmptyMemberDoesNotCount",
		old: "return l.at != nil && l.sound && !l.muted", new: `return l.at != nil && l.life != "" && !l.muted`,
	},
	{
		file: "backend/quorumlock/pursue.go", test: "TestTokensGrowOverEachMajority",
		old: "low := t.exclusive() && p.floor < token", new: "low := false",
	},
	{
		file: "backend/quorumlock/inspect.go", test: "TestTokensGrowAfterALossOfDataThatAGrantHasFollowed",
		old: "return struct{}{}, m.Raise(ctx, queue, floor)", new: "return struct{}{}, nil",
	},
	{
		file: "backend/quorumlock/pursue.go", test: "TestTokensGrowAfterALossOfDataThatAGrantHasFollowed",
		old: "t.raise(i, token)", new: "p.floor = token",
	},
	{
		file: "backend/quorumlock/quorumlock.go", test: "TestAMinorityGrantsNothing",
		old: "len(members)/2 + 1,", new: "len(members) / 2,",
	},
	{
		file: "backend/zklock/setting.go", test: "TestWhoIsGrantedWhileTheNumberIsSetIsKnown",
		old: "stand = append(stand, l[first].node)", new: "",
	},
	{
		file: "backend/zklock/setting.go", test: "TestWhoIsGrantedWhileTheNumberIsSetIsKnown",
		old: "stand = append(stand, o.node)", new: "_ = o",
	},
	{
		file: "backend/zklock/setting.go", test: "TestWhoComesWhileTheNumberIsSetStays",
		old: "next.unsure = upTo{true, int32(children) - 1}", new: "",
	},
	{
		file: "backend/zklock/setting.go", test: "TestWhoComesWhileTheNumberIsSetStays",
		old: "if doubts && before(old.unsure.number, next.unsure.number) {", new: "if false {",
	},
	{
		file: "backend/zklock/post.go", test: "TestWhoComesWhileTheNumberIsSetStays",
		old: "!all.holds(i) && !n.unsure;", new: "!all.holds(i);",
	},
	{
		file: "backend/zklock/resize.go", test: "TestWhoComesWhileTheNumberIsSetStays",
		old: "!n.stays && !n.unsure &&", new: "!n.stays &&",
	},
	{
		file: "backend/zklock/setting.go", test: "TestANumberIsSetThoughHoldersComeAndGo",
		old: "len(l) == 0 || illegible || !certain {", new: "len(l) == 0 || illegible {",
	},
	{
		file: "backend/zklock/await.go", test: "TestWhoWaitsHearsOfEachNumber",
		old: "want[v.permits] = true", new: "",
	},
	{
		file: "backend/zklock/await.go", test: "TestWhoWaitsHearsOfEachNumber",
		old: `(v.permits == "" || a.quiet(v.permits))`, new: "true",
	},
	{
		file: "backend/zklock/leave.go", test: "TestWhoHoldsBesideAnotherLeavesNoMark",
		old: "p.state == held && p.whole,", new: "p.state == held && p.n.exclusive(),",
	},
	{
		file: "backend/zklock/join.go", test: "TestTheDeathOfWhoHadAllIsNotForgottenForASmallerNumber",
		old: "last = p.former //", new: "return nil //",
	},
	{
		file: "backend/zklock/join.go", test: "TestWhoNeverFitsLeavesByItself",
		old: "if !holds && all[i].units > all[i].capacity {", new: "if false {",
	},
	{
		file: "backend/zklock/join.go", test: "TestWhoIsAcceptedByANumberIsNotExpelled",
		old: "append(ops, p.q.unchanged(&all[j])...)...", new: "ops...",
	},
	{
		file: "backend/zklock/post.go", test: "TestWhoIsEvictedWhenANumberLetsItInIsAsked",
		old: "ops = append(ops, q.unchanged(&n)...)", new: "",
	},
	{
		file: "backend/zklock/setting.go", test: "TestGarbageInANumberGrantsNobody",
		old: `if s.node == "" || s.capacity > 0 {`, new: "if true {",
	},
	{
		file: "backend/zklock/resize.go", test: "TestAnotherKindThatComesWhileTheNumberIsSet",
		old: `mine != "" && old.node == mine && !again {`, new: `mine == "-" && !again {`,
	},
	{
		file: "backend/zklock/setting.go", test: "TestConformance$/Resize$",
		old: "n.stays = s.held.is && !before(s.held.number, n.number) || n.until != 0 // which", new: "n.stays = n.until != 0 // which",
	},
	{
		file: "backend/zklock/setting.go", test: "TestConformance$/Resize",
		old: "n.intrudes = !s.suits(n)", new: "",
	},
	{
		file: "backend/zklock/setting.go", test: "TestOneNumberIsSet",
		old: `if s.node == "" || s.node == bell || s.inForce || s.capacity == 0 {`, new: "if true {",
	},
	{
		file: "backend/zklock/join.go", test: "TestLastSequenceNumber",
		old: "_ = s.d.renumber(ctx, s.l, parent(path))", new: "",
	},
	{
		file: "backend/zklock/setting.go", test: "TestAMarkLeftBesideANumberLetsNobodyPassIt",
		old: "n.late = s.node != bell && !earlier", new: "",
	},
	{
		file: "backend/zklock/join.go", test: "TestAMarkLeftBesideANumberLetsNobodyPassIt",
		old: "before && c.data[0] == markLetter &&", new: "before &&",
	},
	{
		file: "backend/zklock/leave.go", test: "TestAMarkLeftBesideANumberLetsNobodyPassIt",
		old: "Data: n.mark(),", new: "Data: markOf(n.number),",
	},
	{
		file: "backend/zklock/resize.go", test: "TestANumberIsTakenBackBesideALockOfCurator",
		old: "if capacity > 0 || !old.kept {", new: "if true {",
	},
	{
		file: "backend/zklock/setting.go", test: "TestAQueueThatIsMadeAnewWhileTheNumberIsSet",
		old: "stand = []string{l[len(l)-1].node}", new: "",
	},
	{
		file: "backend/zklock/setting.go", test: "TestAQueueThatIsMadeAnewWhileTheNumberIsSet",
		old: "next.unsure = everybody", new: "next.unsure = upTo{true, int32(children) - 1}",
	},
	{
		file: "backend/zklock/setting.go", test: "TestGarbageInANumberGrantsNobody",
		old: "if err != nil || !before(int32(n), number) {", new: "if err != nil {",
	},
	{
		file: "backend/zklock/resize.go", test: "TestANumberStaysBesideALockThatIsToBeRefused",
		old: `ops = append(ops, q.expelling(&all[i], q.path+"/"+because.node)...)`, new: "_ = because",
	},
	{
		file: "backend/zklock/resize.go", test: "TestANumberStaysThoughAnotherKindComesWhileAnotherIsSet",
		old: "old.node == mine && !again {", new: "old.node == mine && (again || !again) {",
	},
	{
		file: "backend/zklock/setting.go", test: "TestAFixedEndOutlivesASmallerNumber",
		old: " || n.until != 0 // which", new: " // which",
	},
	{
		file: "backend/zklock/setting.go", test: "TestABellThatStandsAloneStays",
		old: "s.node == bell || s.inForce ||", new: "s.inForce ||",
	},
	{
		file: "backend/zklock/session.go", test: "TestGarbageInANumberConcernsNoOtherLease",
		old: "if err != nil && !driver.IsPermanent(s.d.failed(err)) {", new: "if err != nil && !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrMismatch) {",
	},
	{
		file: "backend/zklock/join.go", test: "TestANumberIsNobodyWhoHasDied",
		old: "since -= 2 //", new: "since -= 0 //",
	},
	{
		file: "backend/zklock/join.go", test: "TestANumberIsNobodyWhoHasDied",
		old: "before(number, parseSetting(p.n.setting).number) {", new: "true {",
	},
	{
		file: "backend/zklock/join.go", test: "TestAWaiterThatIsRemovedBeforeItLooksIsNotGranted|TestWhoIsRemovedBeforeItLooksIsNotGranted|TestConformance$/NoBarging",
		old: "if uint64(c.stat.Pzxid) == zxid {", new: "if zxid != 0 {",
	},
	{
		file: "backend/zklock/resize.go", test: "TestWhoHoldsByANumberThatIsTakenBackAtOnceStays",
		old: "capacity, wrong = 0, err\n\t\t\tcontinue", new: "_, _ = l.multi(ctx, removals(q, c.names)...)\n\t\t\treturn err",
	},
	{
		file: "backend/zklock/change.go", test: "TestWhoIsRemovedWhileItRemovesWhatHasEndedIsNotGranted",
		old: "return nil, errStale\n\t}\n\treturn all, nil\n", new: "return all[ended:], nil\n\t}\n\treturn all, nil\n",
	},
	{
		file: "backend/zklock/setting.go", test: "TestWhoIsGrantedOnceANumberIsForgottenIsNotExpelled",
		old: "if err = d.forgetSetting(ctx, l, q, nodes, &s); err == nil {", new: "if err == nil {",
	},
	{
		file: "backend/zklock/resize.go", test: "TestANumberOfAnotherIsNotTakenBack",
		old: "if wrong != nil && old.node != mine {", new: "if false {",
	},
	{
		file: "backend/zklock/setting.go", test: "TestANumberIsTakenBackBesideALockOfCurator",
		old: "return n.permits() && before(n.number, s.number)", new: "return before(n.number, s.number)",
	},
	{
		file: "backend/zklock/resize.go", test: "TestTheNodeOfASemaphoreWithANumberStays",
		old: "d.lay(ctx, l, q.path, false)", new: "d.lay(ctx, l, q.path, true)",
	},
	{
		file: "backend/zklock/leases.go", test: "TestANumberRefusesOtherLayouts",
		old: "keptIn(c.names); ok && len(all) == 0 {", new: "keptIn(c.names); ok && len(all) > 9 {",
	},
	{
		file: "backend/zklock/meeting.go", test: "TestANumberRefusesOtherLayouts",
		old: "set, ok := keptIn(c.names); ok {", new: "set, ok := keptIn(c.names); ok && false {",
	},
	{
		file: "backend/zklock/setting.go", test: "TestANumberIsALatchOfAnotherLibrary",
		old: `return stem + "-latch-"`, new: `return stem + "-lock-"`,
	},
	{
		file: "backend/zklock/config.go", test: "TestAHandshakeMayTakeItsTime",
		old: "max(timeout, c.patience/time.Duration(len(c.hosts)))", new: "timeout",
	},
	{
		file: "backend/zklock/proof.go", test: "TestAProofCountsFromTheRequest",
		old: "max(t.proof, t.heard[0].sent)", new: "max(t.proof, t.heard[0].by)",
	},
	{
		file: "backend/zklock/proof.go", test: "TestASyncDoesNotProveWhatTheLeaderMayNotHaveHeardOf",
		old: "sent.Add(-t.timeout/4 - t.timeout/40)", new: "sent",
	},
	{
		file: "backend/zklock/await.go", test: "TestWhoeverDiesWhileItWaitsLetsNobodyIn",
		old: "return n.number == number })", new: "return n.number == number || ok })",
	},
	{
		file: "backend/zklock/await.go", test: "TestWhoeverDiesWhileItWaitsLetsNobodyIn",
		old: "granted := o.enough && !robust", new: "granted := !robust",
	},
	{
		file: "backend/zklock/leave.go", test: "TestWhoeverLeavesWhileItWaitsLetsNobodyIn",
		old: "p.state, clean && p.state == held && p.whole, p.edition", new: "held, clean && p.n.exclusive(), p.edition",
	},
	{
		file: "backend/zklock/leave.go", test: "TestWhoeverLeavesWithoutKnowingThatItWaitsLetsNobodyIn",
		old: "clean && p.state == held && p.whole", new: "clean && p.n.exclusive()",
	},
	{
		file: "backend/zklock/leave.go", test: "TestOneOfSeveralHoldersThatLeavesLetsNobodyIn",
		old: "clean && p.state == held && p.whole", new: "clean && p.state == held",
	},
	{
		file: "backend/zklock/await.go", test: "TestWhoIsRemovedBeforeItsTurnIsNotGranted",
		old: "granted && a.quiet(own) &&", new: "granted && a.on[own] != nil &&",
	},
	{
		file: "backend/zklock/keeper.go", test: "TestAnEndThatAnotherHasMovedStands|TestAGrantWithAFixedEndIsNotRemoved",
		old: "\tif errors.Is(err, zk.ErrNoNode) {\n\t\treturn s.relocate(ctx, p)",
		new: "\tif errors.Is(err, zk.ErrNoNode) {\n\t\treturn s.quit(ctx, p, false)",
	},
	{
		file: "backend/zklock/renew.go", test: "TestATicketThatIsAboutToBeRemovedIsNotRenewed",
		old: "case p.doomed:", new: "case p.doomed && p.fixed:",
	},
	{
		file: "backend/zklock/join.go", test: "TestAJoinIsNotServedByTheTicketOfAnEarlierSession",
		old: "if c.stat.EphemeralOwner != s.zk && n.until == 0 {", new: "if c.stat.EphemeralOwner == 0 && n.until == 0 {",
	},
	{
		file: "backend/zklock/join.go", test: "TestWhoIsToBeRefusedRefusesNobody",
		old: "\t\tif !ok {\n\t\t\treturn s.disagree(ctx, p, &all[j])", new: "\t\tif ok || !ok {\n\t\t\treturn s.disagree(ctx, p, &all[j])",
	},
	{
		file: "backend/zklock/setting.go", test: "TestATicketThatWasGrantedIsNotExpelled",
		old: "&zk.CheckVersionRequest{Path: because,", new: "&zk.CheckVersionRequest{Path: parent(because),",
	},
	{
		file: "backend/zklock/leases_line.go", test: "TestConformanceOfLeases$/MismatchOfALatecomer",
		old: "\t\tif n.limit != 0 {\n\t\t\treturn n, n.limit != limit\n", new: "\t\tif n.limit != 0 && n.limit != limit {\n\t\t\treturn n, true\n",
	},
	{
		file: "backend/zklock/join.go", test: "TestConformance$/Proof",
		old: "return min(p.s.l.tap.proven(), p.extended)", new: "return p.s.l.tap.proven()",
	},
	{
		file: "backend/zklock/change.go", test: "TestWhoWaitsIsNotGrantedWhenTheHoldersNodeIsReplaced",
		old: "\t\t&zk.SetDataRequest{Path: path, Version: -1},\n", new: "",
	},
	{
		file: "backend/zklock/keeper.go", test: "TestAnEndThatAnotherHasMovedStands",
		old: "if left := n.left(now); left > 0 {", new: "if left := n.left(now); left > 1<<60 {",
	},
	{
		file: "backend/zklock/change.go", test: "TestAFixedEndIsProvenFromBeforeTheClockWasRead",
		old: "p.got.Proof = sent\n", new: "p.got.Proof = by\n",
	},
	{
		file: "backend/zklock/ghost.go", test: "TestTicketsThatStandAreNotTakenForThoseThatCameBack",
		old: " && !s.l.tap.known(o.id)", new: "",
	},
	{
		file: "backend/zklock/join.go", test: "TestATicketThatIsKeptBeforeItsGrantIsNoticedHasOneToken",
		old: "p.stands(*n, joined(c))", new: "p.stands(*n, uint64(c.stat.Czxid))",
	},
	{
		file: "backend/zklock/follow.go", test: "TestAFixedTicketHasOneToken",
		old: "return entry{out, m.Token != 0}", new: "return entry{out, false}",
	},
	{
		file: "backend/zklock/join.go", test: "TestAFixedEndStaysWhenItsTicketIsFoundAgain",
		old: "hold, fixed := p.req.Hold, p.n.until != 0", new: "hold, fixed := p.req.Hold, p.n.until < 0",
	},
	{
		file: "backend/zklock/post.go", test: "TestKazooCannotBeAsked",
		old: "if n.layout.kazoo {", new: "if n.layout.latch {",
	},
	{
		file: "backend/zklock/renew.go", test: "TestARenewalProvesNothingOfItself",
		old: "State: driver.Kept, Proof: p.proof()", new: "State: driver.Kept, Proof: began",
	},
	{
		file: "backend/zklock/floor.go", test: "TestRaisesAtOnceDoNotUndoEachOther",
		old: "Data: data, Version: version}", new: "Data: data, Version: -1}",
	},
	{
		file: "backend/zklock/floor.go", test: "TestConformance$/Raise",
		old: "[]string{flat(q.name), allQueues}", new: "[]string{flat(q.name)}",
	},
	{
		file: "driver/url.go", test: "FuzzParseURL",
		old: "nameEscaper.Replace(url.PathEscape(u.User.Username()))", new: "url.PathEscape(u.User.Username())",
	},
	{
		file: "backend/zklock/addition.go", test: "TestTokensGrowWhateverIsAdded",
		old: "add = max(add, min(a.Add, driver.MaxToken))", new: "add = a.Add",
	},
	{
		file: "backend/zklock/addition.go", test: "TestGarbageInFloorsHarmsOneName",
		old: "return additions{lost: true}", new: "return additions{}",
	},
	{
		file: "backend/zklock/addition.go", test: "TestGarbageInFloorsHarmsOneName",
		old: "if a.Add == 0 || a.Add >= driver.MaxToken {", new: "if a.Add == 0 {",
	},
	{
		file: "backend/zklock/floor.go", test: "TestGarbageInFloorsHarmsOneName",
		old: "return nil, d.illegible(queue, err)", new: "return nil, nil",
	},
	{
		file: "backend/zklock/floor.go", test: "TestGarbageInATicketHarmsItsQueue",
		old: "return min(m.Zxid, zxid)", new: "return m.Zxid",
	},
	{
		file: "backend/zklock/cell.go", test: "TestGarbageInASharedNodeHarmsOneName",
		old: "	case string(c.data) != string(cellDeleted):", new: "	case false:",
	},
	{
		file: "backend/zklock/post.go", test: "TestGarbageInASharedNodeHarmsOneName",
		old: "if c.stat.EphemeralOwner != session {", new: "if false {",
	},
	{
		file: "backend/zklock/internal/doctor/rights.go", test: "TestCheck$",
		old: "	case world:", new: "	case false:",
	},
	{
		file: "backend/zklock/tidy.go", test: "TestCloseWithoutAConnectionLeavesNoTicket",
		old: "\t\tif p.fixed {", new: "\t\tif p == nil {",
	},
	{
		file: "backend/zklock/join.go", test: "TestWhoWaitsBehindReadersInheritsFromTheWriterBeforeThem",
		old: "since > int32(len(front))", new: "since < 0 && false",
	},
	{
		file: "backend/zklock/crowd.go", test: "TestARenewalDoesNotWaitForACrowd",
		old: "if s.taken < s.most() {", new: "if s != nil {",
	},
	{
		file: "backend/zklock/crowd.go", test: "TestSlots",
		old: "s.limit, s.cut = max(s.most()/2, fewestSlots), now", new: "s.cut = now",
	},
	{
		file: "backend/zklock/join.go", test: "TestWhoGivesUpBeforeItsJoinIsSentCostsNothing",
		old: "\t\ts.unsent.Add(r.ID)", new: "\t\t_ = s",
	},
	{
		file: "backend/zklock/leave.go", test: "TestWhoGivesUpWhileItsNodeIsMadeIsNotSearchedFor",
		old: "if err := p.settled(ctx); err != nil {", new: "if err := ctx.Err(); err != nil {",
	},
	{
		file: "backend/zklock/withdraw.go", test: "TestThoseWhoGiveUpLeaveTogether",
		old: "mostWithdrawn      = 256", new: "mostWithdrawn      = 1",
	},
	{
		file: "backend/zklock/tap.go", test: "TestASlowServerIsNotLeft",
		old: "last := max(began, t.spoke)", new: "last := began",
	},
	{
		file: "backend/zklock/session.go", test: "TestASessionIsOverOnceItsClientHasAnother",
		old: "now != s.zk || timeout < s.ttl", new: "timeout < s.ttl",
	},
	{
		file: "backend/zklock/session.go", test: "TestOwnConnectionIsLeftWithWhatHasAFixedEnd",
		old: "\t\tif !p.fixed {\n\t\t\tplaces", new: "\t\tif p != nil {\n\t\t\tplaces",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestAReleaseDoesNotQueueBehindACrowd",
		old: "PERFORM @gate('join', p_queue);", new: "",
	},
	{
		file: "backend/mysqllock/sql/join.sql", pkg: "backend/mysqllock", test: "TestAReleaseDoesNotQueueBehindACrowd",
		old: "IF v_waiting > 0 THEN\n\t\tSELECT n", new: "IF v_waiting < 0 THEN\n\t\tSELECT n",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestManyGiveUpInOneExchange",
		old: "got := @find(q, p_session, v_id, false, now); t := got.t;\n\t\tIF got.code = 0 THEN", new: "got := @find(q, p_session, v_id, true, now); t := got.t;\n\t\tIF t.id IS NOT NULL THEN",
	},
	{
		file: "backend/pglock/pool.go", test: "TestAHeartbeatOnAFullServer",
		old: "conn, err = r.Acquire(ctx); err == nil || ctx.Err() != nil {", new: "conn, err = r.Acquire(ctx); true {",
	},
	{
		file: "backend/pglock/pool.go", test: "TestJoinsLeaveAConnectionToReleases",
		old: "max(1, int(p.Config().MaxConns)-1)", new: "int(p.Config().MaxConns)",
	},
	{
		file: "backend/redislock/goredis/goredis.go", test: "TestTheServersOfTheClient/socket",
		old: "network = of.Network", new: "network = \"tcp\"",
	},
	{
		file: "backend/redislock/goredis/goredis.go", test: "TestTheServersOfTheClient/database",
		old: "SelectDB: of.DB, ", new: "",
	},
	{
		file: "backend/redislock/goredis/goredis.go", test: "TestClientsThatAreRefused",
		old: "of.OnConnect != nil", new: "of.OnConnect != nil && of.DB > 99",
	},
	{
		file: "backend/redislock/goredis/goredis.go", test: "TestClientsThatAreRefused",
		old: "of.Addr == \"FailoverClient\"", new: "of.Addr == \"\"",
	},
	{
		file: "backend/redislock/internal/conn/dial.go", pkg: "backend/redislock/goredis", test: "TestFunctionsThatDoNotEnd",
		old: "func(late net.Conn) { late.Close() }", new: "func(net.Conn) {}",
	},
	{
		file: "backend/mysqllock/mysqllock.go", test: "TestWhoWaitsForARowHoldsUpNoSwitchOver",
		old: "const lockWait = 1", new: "const lockWait = 5",
	},
	{
		file: "backend/mysqllock/store.go", test: "TestWhoWaitsForARowHoldsUpNoSwitchOver",
		old: "rollBack(ctx, conn)\n\t\tselect", new: "discard(conn)\n\t\tselect",
	},
	{
		file: "backend/mysqllock/pool.go", test: "TestAWaitWithoutAnyConnectionNamesTheLimit",
		old: "s.to.made.Load() == 0", new: "s.db.Stats().OpenConnections == 0",
	},
	{
		file: "backend/redislock/lua/raise.lua", pkg: "backend/redislock", test: "TestNoTokenComesTwiceOverAFailover$",
		old: "q.offset = math.max(q.offset, ", new: "local _ = math.max(q.offset, ",
	},
	{
		file: "backend/redislock/lua/raise.lua", pkg: "backend/redislock", test: "TestARaiseIsKeptForEver",
		old: "q.push, changed = true, true", new: "changed = true",
	},
	{
		file: "backend/redislock/lua/queue.lua", pkg: "backend/redislock", test: "TestTheNumberOfPermitsStaysForEver",
		old: "elseif q.offset > 0 or q.resized then", new: "elseif q.offset > 0 then",
	},
	{
		file: "backend/redislock/lua/resize.lua", pkg: "backend/redislock", test: "TestTheNumberOfPermitsStaysForEver",
		old: "q.final, q.keep = tonumber(final[2] or 0), 0", new: "q.keep = 0",
	},
	{
		file: "backend/redislock/lua/queue.lua", pkg: "backend/redislock", test: "TestAHandOverWaitsUntilEnoughHaveLeft",
		old: "or q.used > q.capacity and OVER or ''", new: "or ''",
	},
	{
		file: "backend/redislock/lua/resize.lua", pkg: "backend/redislock", test: "TestNoScriptOfResizeDoesEverything",
		old: "if budget == 0 then -- sweep", new: "if false then -- sweep",
	},
	{
		file: "backend/redislock/lua/pass.lua", pkg: "backend/redislock", test: "TestTokensOfHandOversFollowTheClock",
		old: "after(last, now, offset)", new: "after(last, now, 0)",
	},
	{
		file: "backend/redislock/lua/take.lua", pkg: "backend/redislock", test: "TestARaiseIsKeptForEver",
		old: "if not number or number >= 2 ^ 51 then", new: "number = number or 0\nif false then",
	},
	{
		file: "backend/redislock/lua/take.lua", pkg: "backend/redislock", test: "TestOneKeyIsAboveAllTokens",
		old: "elseif high and high < (minute + 1) * MINUTE then", new: "elseif false then",
	},
	{
		file: "backend/redislock/lua/take.lua", pkg: "backend/redislock", test: "TestTokensGrowThoughTheLastOneIsForgotten",
		old: "if not last and (not high or high > token + MINUTE) then", new: "if false then",
	},
	{
		file: "backend/redislock/lua/pass.lua", pkg: "backend/redislock", test: "TestOneKeyIsAboveAllTokens",
		old: "(offset > 0 or math.floor(last / MINUTE) == math.floor(now / 10 / MINUTE))", new: "true",
	},
	{
		file: "backend/redislock/lua/drop.lua", pkg: "backend/redislock", test: "TestWhatAReleaseLeavesBehindLivesLong",
		old: "3600 * 1000", new: "5 * 1000",
	},
	{
		file: "backend/redislock/lua/queue.lua", pkg: "backend/redislock", test: "TestAnotherLibraryRespectsALockThatIsRenewed",
		old: "\t\tif r.token > 0 then clear(now + ttl) end\n", new: "",
	},
	{
		file: "backend/redislock/lua/queue.lua", pkg: "backend/redislock", test: "TestATicketThatIsFoundAgainIsExtended",
		old: "call('PEXPIRE', LOCK, int(ttl / 1000 + 2))", new: "local _ = ttl",
	},
	{
		file: "backend/redislock/renew.go", test: "TestARenewalThatReplicasDidNotConfirmProvesNothing",
		old: "err := s.replicated(ctx, s.queue(tickets[i].Queue), tickets[i].ID); err", new: "err := error(nil); err",
	},
	{
		file: "backend/redislock/renew.go", test: "TestAHeartbeatTellsOfAnEviction",
		old: "Evicted: state == stateEvicted, ", new: "",
	},
	{
		file: "backend/redislock/renew.go", test: "TestADeadNodeDoesNotKeepTheAnswersOfOthersBack",
		old: "s.renew(ctx, o.TTL/8, o,", new: "s.renew(ctx, o.TTL, o,",
	},
	{
		file: "driver/exchange/join.go", pkg: "backend/redislock", test: "TestAJoinThatIsOvertakenByTheEndOfItsSessionLeavesNothing",
		old: "\t\t\t_, _ = callStore(ctx, s.d, Store.Leave, l)\n", new: "",
	},
	{
		file: "backend/redislock/read.go", test: "TestWhatIsOverIsNotShown",
		old: "!ok || l <= 0 {", new: "!ok || l == 0 {",
	},
	{
		file: "backend/redislock/internal/conn/dial.go", pkg: "backend/redislock", test: "TestOpenReturnsWithItsContext",
		old: "\t\ts.Close()\n\t\tif r", new: "\t\tif r",
	},
	{
		file: "backend/redislock/internal/conn/dial.go", pkg: "backend/redislock", test: "TestCallsReturnThoughTheyDial",
		old: "!found && c.uses.Load() == 1", new: "!found && c.uses.Load() == -1",
	},
	{
		file: "backend/redislock/confirm.go", test: "TestMoreReplicasThanThereAre",
		old: "n < int64(s.replicas)", new: "n < 1",
	},
	{
		file: "backend/redislock/lua/join.lua", pkg: "backend/redislock", test: "TestAJoinThatIsRepeatedExtendsItsTicket",
		old: "if not is(r, 'f') and not is(r, 'e') then extend(r, ttl) end", new: "",
	},
	{
		file: "driver/exchange/confirm.go", pkg: "backend/redislock", test: "TestAnUnconfirmedGrantLeavesNoTrace",
		old: "s.d.drop(e)", new: "s.d.retire(e)",
	},
	{
		file: "driver/exchange/entry.go", pkg: "backend/redislock", test: "TestAProofIsFromBeforeTheRequest",
		old: "min(e.s.d.now(), e.sent.Add(at.Sub(e.at)))", new: "e.s.d.now()",
	},
	{
		file: "driver/exchange/join.go", pkg: "backend/redislock", test: "TestARepetitionWithNoWaitLeavesNothing",
		old: "r.Retry && errors.Is(err, driver.ErrBusy)", new: "r.Hold > 0 && errors.Is(err, driver.ErrBusy)",
	},
	{
		file: "backend/redislock/renew.go", test: "TestConformance$/LostMessages",
		old: "case state == stateFixed, state == stateEvicted && again >= 0:", new: "case state == stateFixed:",
	},
	{
		file: "backend/redislock/renew.go", test: "TestConformance$/RenewOfFixedTickets",
		old: "true, us(again), us(hold)", new: "true, us(again), us(hold-hold+again)",
	},
	{
		file: "backend/redislock/lua/keep.lua", pkg: "backend/redislock", test: "TestConformance$/RenewOfFixedTickets",
		old: "\tr.hold = stop - now\n", new: "",
	},
	{
		file: "backend/redislock/renew.go", test: "TestARenewalOutlastsAPauseOfItsNode",
		old: "if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {", new: "if ctx.Err() == nil || !errors.Is(err, context.DeadlineExceeded) {",
	},
	{
		file: "backend/redislock/tickets.go", test: "TestAProofIsFromBeforeTheRequest",
		old: "\t\tsent := driver.Now()\n\t\tanswer, err := s.runN(ctx, c, 6)\n", new: "\t\tanswer, err := s.runN(ctx, c, 6)\n\t\tsent := driver.Now()\n",
	},
	{
		file: "backend/redislock/renew.go", test: "TestAProofIsFromBeforeTheRequest",
		old: "all[i].Stray = i >= extend && !all[i].Fixed;", new: "all[i].Stray = false;",
	},
	{
		file: "driver/exchange/leave.go", pkg: "backend/redislock", test: "TestALateJoinGetsNoTicketOnceItsRepetitionHasLeft",
		old: "case e.mayArrive():", new: "case false:",
	},
	{
		file: "backend/redislock/lua/leave.lua", pkg: "backend/redislock", test: "TestALateJoinGetsNoTicketOnceItsRepetitionHasLeft",
		old: "\tif ARGV[4] ~= '0' then bury(id, tonumber(ARGV[4])) end\n", new: "",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestTheNumberOfPermitsOutlastsACrash",
		old: "CASE WHEN o.capacity > 0 THEN FOREVER ELSE x.safe END", new: "x.safe",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestTheNumberOfPermitsOutlastsACrash",
		old: "\t\tUPDATE @fixed r SET capacity = p_capacity WHERE r.queue = p_queue;\n", new: "",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestAJoinIsRepeatedAfterANumberOfPermitsWasSet",
		old: "\t\tELSIF t.queue <> p_queue OR q.kind <> p_kind THEN", new: "\t\tELSIF t.queue <> p_queue OR q.capacity <> p_capacity THEN",
	},
	{
		file: "backend/pglock/migrate.go", test: "TestFunctionsOfAnEarlierReleaseAreReplaced",
		old: "m.Mendable || m.Older && m.MayRenew", new: "m.Mendable",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestALookBeforeTheFirstSessionAfterACrash",
		old: "IF t.id IS NULL AND NOT EXISTS (SELECT FROM @sentinel r WHERE r.one) THEN", new: "IF false THEN",
	},
	{
		file: "driver/exchange/limiter.go", test: "TestJoinsOfAQueueTakeTurns",
		old: "const perQueue = 2", new: "const perQueue = 3",
	},
	{
		file: "driver/exchange/event.go", test: "TestALateLookTellsANewHolderNothing",
		old: "e.state == gone && (now == nil || now == e)", new: "e.state == gone && (now == nil || true)",
	},
	{
		file: "driver/exchange/listen.go", test: "TestPollsAreNeitherDenseNorStarved", // they are dense
		old: "time.Now().Add(pollShare*time.Since(began))", new: "time.Now().Add(0*time.Since(began))",
	},
	{
		file: "driver/exchange/listen.go", test: "TestPollsAreNeitherDenseNorStarved", // each call puts them off
		old: "if due.IsZero() || next.Before(due) {", new: "if next = next.Add(200 * time.Millisecond); true {",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestATicketThatIsRemovedWhileItJoinsIsNotHeld",
		old: "case len(own) == 0 || own[0].CreateRevision != t.created:", new: "case len(own) == 0 || own[0].CreateRevision != t.created:\n\t\t\tbreak",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestAWaiterLooksIfItsWatchMayHaveBegunTooLate",
		old: "same = len(all) > 0 && all[0].ModRevision <= what.read", new: "same = true",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestAWaiterLooksIfTheOneInFrontWasGrantedBeforeItsWatch",
		old: "same = len(all) > 0 && all[0].ModRevision <= what.read", new: "same = len(all) > 0",
	},
	{
		file: "backend/etcdlock/far.go", test: "TestAFarWriterThatWantsLessIsGrantedBesideReaders",
		old: "t.created == created && needsWhole(t) {", new: "t.created == created {",
	},
	{
		file: "backend/etcdlock/far.go", test: "TestAMismatchIsFoundBehindOtherKeys",
		old: "slices.ContainsFunc(ln.tickets, func(o *ticket) bool { return !o.foreign && o.id != t.id })", new: "true",
	},
	{
		file: "backend/etcdlock/far.go", test: "TestAShortQueueAboveALongOneIsShort",
		old: "len(ln.tickets) == perJoin && ", new: "",
	},
	{ // of the tickets that were read before, only if none of the sample is in front
		file: "backend/etcdlock/far.go", test: "TestARepeatedJoinSortsNoVeryLongQueue",
		old: "last == nil && len(before) > 0 {", new: "false {",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestARepeatedJoinSortsNoVeryLongQueue",
		old: "if s.isFar(there, &ln, keys) {", new: "if false && s.isFar(there, &ln, keys) {",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestNobodyTrustsTheWatchOfAnEarlierTicket",
		old: "ref.Tag != 0 && t.waiter == int64(ref.Tag>>tagBits) {", new: "ref.Tag != 0 {",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestNobodyTrustsTheWatchOfAnEarlierTicket",
		old: "case q.number.Permits > 0, uint64(t.created) != ref.Tag>>tagBits:", new: "case q.number.Permits > 0:",
	},
	{ // in the watch itself
		file: "backend/etcdlock/watch.go", test: "TestAChangeIsToldWhileAMemberDoesNotAnswer",
		old: "tasks.Go(func() { // a change may", new: "func(f func()) { f() }(func() { // a change may",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestAChangeIsToldWhileAMemberDoesNotAnswer",
		old: "context.WithTimeout(ctx, time.Second) // it may be asked", new: "context.WithTimeout(ctx, time.Hour) // it may be asked",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestAPermitOfASlowJoinIsWritten",
		old: "waited := q.at > t.created &&", new: "waited := false &&",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestAPermitOfASlowJoinIsWritten",
		old: "waited := q.at > t.created && (!q.whole ||", new: "waited := q.at > t.created && (true ||",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestAChangeIsToldWhileAMemberDoesNotAnswer",
		old: "!s.unchanged(ctx, t) && ctx.Err() == nil {", new: "!s.unchanged(ctx, t) {",
	},
	{ // who has watched a ticket far in front of it takes the leaving of that for its turn
		file: "backend/etcdlock/far.go", test: "TestAVeryLongQueueIsSortedForAWaiterOnce",
		old: "q.far = true", new: "q.far = false",
	},
	{ // and who looks between does
		file: "backend/etcdlock/look.go", test: "TestAVeryLongQueueIsSortedForAWaiterOnce",
		old: "far: created == 0}", new: "far: false}",
	},
	{
		file: "backend/etcdlock/far.go", test: "TestAVeryLongQueueIsSortedForAWaiterOnce",
		old: "return keys >= s.veryLong &&", new: "return false &&",
	},
	{ // it is looked for at the front, and then for the one in front
		file: "backend/etcdlock/far.go", test: "TestAVeryLongQueueIsSortedForAWaiterOnce",
		old: "if last != nil && t.created == created && needsWhole(t) {", new: "if false {",
	},
	{
		file: "backend/etcdlock/far.go", test: "TestASampleOfLaterTicketsIsNotWatched",
		old: "o != nil && o.created < t.created &&", new: "o != nil &&",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "TestAWaiterThatIsEvictedAsItIsGrantedIsEvictedAsAHolder",
		old: "!p.held && o.ID == \"\" {", new: "false {",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "TestTokensAreRaisedBehindKeysOfQueuesBelow",
		old: "for name != \"\" && !ln.whole && !ln.full() {", new: "for false {",
	},
	{
		file: "driver/exchange/renew.go", test: "TestATicketWhoseLeaveAFailoverHasLostIsAStray",
		old: "s.reconcile(history)", new: "_ = history",
	},
	{
		file: "driver/exchange/event.go", test: "TestAWaiterWhoseQuestionFailsAsksAgain",
		old: "if err != nil && e.state == waiting {", new: "if false {",
	},
	{
		file: "driver/exchange/entry.go", test: "TestAnAnswerFromBeforeTheGrantChangesNothing",
		old: "if st.State == Held || e.state != held {", new: "if true {",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "TestAWaiterThatLeavesAsItIsGrantedLeavesNothingToInherit",
		old: "\tcase clean:\n", new: "\tcase false:\n",
	},
	{
		file: "driver/exchange/renew.go", test: "TestAFixedEndWithoutAProofHasNotPassed",
		old: "e.state == held && e.proof != 0 &&", new: "e.state == held &&",
	},
	{
		file: "driver/exchange/look.go", test: "TestAHeartbeatOfManyTicketsProvesWhatItsFirstExchangeDid",
		old: "finding{st, renewed, e.proof, false}", new: "finding{st, sent, e.proof, false}",
	},
	{
		file: "driver/exchange/reconcile.go", test: "TestATicketWhoseLeaveAFailoverHasLostIsAStray",
		old: "if err != nil {\n\t\t\treturn", new: "if err != nil {\n\t\t\ts.history = history\n\t\t\treturn",
	},
	{
		file: "driver/exchange/listen.go", test: "TestACallThatEndsTheRestIsPolledFor",
		old: "if l.calls == 1 || !l.hears {", new: "if false {",
	},
	{
		file: "driver/exchange/listen.go", test: "TestALookThatFailsIsRepeated",
		old: "for d.resync(ctx, true) != nil &&", new: "if d.resync(ctx, true) != nil &&",
	},
	{
		file: "driver/exchange/renew.go", pkg: "backend/pglock", test: "TestConformance$/LateAnswers",
		old: "\ts.proof = max(s.proof, sent)\n", new: "\tsent = s.d.now()\n\ts.proof = max(s.proof, sent)\n",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/HoldBeginsWithTheGrant",
		old: "AND w.hold = 0 AND w.ends IS NULL INTO heir", new: "AND w.ends IS NULL INTO heir",
	},
	{
		file: "backend/mysqllock/sql/later.sql", pkg: "backend/mysqllock", test: "TestTheNumberOfPermitsInTablesOfAnEarlierRelease",
		old: "tickets = v_tickets + 1, slow = {forever}", new: "slow = {forever}",
	},
	{
		file: "backend/mysqllock/resize.go", test: "TestTheNumberOfPermitsInTablesOfAnEarlierRelease",
		old: "try > 0 || len(m.Others()) > 0", new: "try > 0",
	},
	{
		file: "backend/mysqllock/staying.go", test: "TestARowThatIsTidiedBetweenTwoStatements",
		old: "GREATEST(slow, VALUES(slow))", new: "slow",
	},
	{
		file: "backend/mysqllock/staying.go", test: "TestARowThatIsTidiedTwice",
		old: "{now} + ? FROM", new: "{now} * 0 + ? FROM",
	},
	{
		file: "backend/mysqllock/sql/session.sql", pkg: "backend/mysqllock", test: "TestATidyThatIsLateForgetsNoDeath",
		old: "IF(unclean, 30 * 24, 1) * 3600000000 FOR UPDATE", new: "-3600000000 FOR UPDATE",
	},
	{
		file: "backend/mysqllock/store.go", test: "TestConformance$/Resize$",
		old: "code == sqlcode.Mismatch && j.Retry", new: "false",
	},
	{
		file: "backend/mysqllock/sql/inner.sql", pkg: "backend/mysqllock", test: "TestConformance$/InheritedAfterResize$",
		old: "p_units >= v_capacity AND v_used = 0", new: "p_units >= v_capacity",
	},
	{
		file: "backend/mysqllock/sql/later.sql", pkg: "backend/mysqllock", test: "TestTheNumberOfPermitsInTablesOfAnEarlierRelease",
		old: "SET unclean = 1 WHERE", new: "SET unclean = unclean WHERE",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/InheritedAfterResize$",
		old: "t.units >= q.capacity AND t.units = q.used THEN -- no other", new: "t.units = q.capacity AND t.units = q.used THEN -- no other",
	},
	{
		file: "backend/redislock/lua/queue.lua", pkg: "backend/redislock", test: "TestConformance$/InheritedAfterResize$",
		old: "r.units >= q.capacity and r.units == q.used then q.mark = clean", new: "r.units >= q.capacity then q.mark = clean",
	},
	{
		file: "backend/filelock/store.go", test: "TestTheNumberOfPermitsStays",
		old: "\t\tx.durable = true\n\t\tx.news()\n\t\treturn nil\n\t})\n}\n\nfunc (s *store) Raise(", new: "\t\tx.news()\n\t\treturn nil\n\t})\n}\n\nfunc (s *store) Raise(",
	},
	{
		file: "backend/filelock/tidy.go", test: "TestTheNumberOfPermitsStays",
		old: "!x.Unclean && !x.Resized && x.Unlocking", new: "!x.Unclean && x.Unlocking",
	},
	{
		file: "backend/mysqllock/sql/leave.sql", pkg: "backend/mysqllock", test: "TestConformance$/HoldBeginsWithTheGrant",
		old: "v_units = v_capacity AND v_hold = 0 AND v_own IS NULL", new: "v_units = v_capacity AND v_own IS NULL",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestJoinThatIsOvertakenByItsRepetition",
		old: "\t\t\tUPDATE @queue r SET tickets = r.tickets - 1, waiting = r.waiting - 1 WHERE r.name = p_queue;\n\t\tEND IF;\n\tEND IF;\n\tSELECT", new: "\t\tEND IF;\n\tEND IF;\n\tSELECT",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestRenewalThatIsOvertaken",
		old: "greatest(s.expires, now + s.ttl) WHERE s.id", new: "(now + s.ttl) WHERE s.id",
	},
	{
		file: "backend/mysqllock/sql/inner.sql", pkg: "backend/mysqllock", test: "TestRenewalThatIsCommittedBesideASweep",
		old: "\t\t\t\tIF v_ends > p_now THEN ITERATE each_one; END IF;\n", new: "",
	},
	{
		file: "backend/mysqllock/sql/inner.sql", pkg: "backend/mysqllock", test: "TestRenewalThatIsCommittedBesideASweep",
		old: "FROM {p}sessions WHERE id = v_session LOCK IN SHARE MODE;", new: "FROM {p}sessions WHERE id = v_session;",
	},
	{
		file: "backend/mysqllock/sql/inner.sql", pkg: "backend/mysqllock", test: "TestTakingOutEndsTheSession",
		old: "\t\t\tUPDATE {p}sessions SET gone = 1 WHERE id = v_session AND gone = 0;\n\t\t\tCALL", new: "\t\t\tCALL",
	},
	{
		file: "backend/mysqllock/store.go", test: "TestRepeatedJoinOfATicketThatHasEnded",
		old: "st = found[0]; st.State == exchange.Gone {", new: "st = found[0]; false {",
	},
	{
		file: "backend/mysqllock/store.go", test: "TestHeartbeatThatIsOvertaken",
		old: "LAST_INSERT_ID(GREATEST(ends, {now} + ttl))", new: "LAST_INSERT_ID({now} + ttl)",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/FollowIsTold",
		old: "r.tickets = 0 AND r.slow <= now AND NOT r.watched AND", new: "r.tickets = 0 AND r.slow <= now AND",
	},
	{
		file: "backend/mysqllock/sql/join.sql", pkg: "backend/mysqllock", test: "TestConformance$/FollowIsTold",
		old: "AND NOT p_retry AND NOT p_nowait AND NOT v_watched", new: "AND NOT p_retry AND NOT p_nowait",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestTidyingForgetsNothingThatIsNeeded",
		old: "q.tickets = 0 AND NOT q.watched AND q.slow <= now\n", new: "q.tickets = 0 AND NOT q.watched\n",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/LeaveBeforeItsJoin",
		old: "AND r.capacity = p_capacity\n\t\t\t\tAND r.slow <= now AND NOT r.watched", new: "AND r.capacity = p_capacity\n\t\t\t\tAND NOT r.watched",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestTokensGrowWhenTheClockFallsBack",
		old: "last = NEXT(r), granted = NEXT(r),", new: "last = now / 10, granted = now / 10,",
	},
	{
		file: "backend/mysqllock/short.go", test: "TestTokensGrowWhenTheClockFallsBack",
		old: "LAST_INSERT_ID(GREATEST(q.last + 1, LEAST({now} DIV 10, {counted} - q.token_offset))", new: "LAST_INSERT_ID(LEAST({now} DIV 10, {counted} - q.token_offset)",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestCrashes$/unlogged",
		old: "UPDATE @meta m SET longest = greatest(m.longest, p_ttl) WHERE m.one;", new: "PERFORM 1;",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/Inherited$",
		old: "r.ends <= now ORDER BY r.ends LIMIT 200 LOOP\n\t\t\tq := @remove(q, t, t.flags & 8 <> 0);", new: "r.ends <= now ORDER BY r.ends LIMIT 200 LOOP\n\t\t\tq := @remove(q, t, true);",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/InheritedAmongReaders",
		old: "unclean = CASE WHEN r.units >= r.capacity THEN NOT clean ELSE r.unclean END", new: "unclean = NOT clean",
	},
	{
		file: "driver/exchange/entry.go", pkg: "backend/pglock", test: "TestConformance$/RenewOfFixedTickets",
		old: "e.proof = min(sent, sent.Add(st.Left-e.hold))", new: "e.proof = sent",
	},
	{
		file: "backend/mysqllock/sql/join.sql", pkg: "backend/mysqllock", test: "TestJoinAfterEnd",
		old: "IF v_ends IS NULL OR v_gone OR v_ends <= v_now THEN", new: "IF v_ends IS NULL OR v_gone THEN",
	},
	{
		file: "backend/mysqllock/sql/session.sql", pkg: "backend/mysqllock", test: "TestServerThatDoesNotWaitForItsBinaryLog",
		old: "\tUPDATE {p}meta SET longest = p_ttl WHERE one = 1 AND longest < p_ttl;\n", new: "",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/Raise",
		old: "\t\tq.offset := raised;\n", new: "",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/Raise",
		old: "coalesce(heir_token, heir + v_offset)", new: "coalesce(heir_token, heir)",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestGraceAfterAPromotion",
		old: "CASE WHEN same THEN 0 ELSE 15000000 END", new: "0",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestGraceAfterACrash",
		old: "CASE WHEN same THEN 0 ELSE 15000000 END", new: "15000000",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestClockSetBackAfterTheGrace",
		old: "\tPERFORM @thaw();\n\tRETURN NEXT", new: "\tRETURN NEXT",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestClockSetBackDuringTheGrace",
		old: " OR x.safe > now + whole", new: "",
	},
	{
		file: "backend/pglock/functions.sql", test: "TestConformance$/InheritedIsRepeated",
		old: "|| CASE WHEN clean THEN ' -' ELSE ' i' END ||", new: "|| ' -' ||",
	},
	{
		file: "backend/pglock/schema.go", test: "TestEveryFunctionHasASearchPath",
		old: `path = ` + "`search_path = pg_catalog, pg_temp`", new: `path = ` + "`search_path = \"$user\", trap, public`",
	},
	{
		file: "backend/pglock/migrate.go", test: "TestNothingOfAStrangerIsCalled",
		old: "pg_catalog.hashtextextended(", new: "hashtextextended(",
	},
	{
		file: "backend/pglock/schema.go", test: "TestEveryFunctionHasASearchPath",
		old: `" AS $$", " SET "+path+" AS $$"`, new: `" AS $$", " AS $$"`,
	},
	{
		file: "backend/pglock/internal/database/errors.go", pkg: "backend/pglock/internal/doctor", test: "TestDoctorOfAServerThatRefuses",
		old: `pg.Code == "57P03"`, new: "false",
	},
	{
		file: "backend/pglock/internal/database/tables.go", pkg: "backend/pglock", test: "TestTablesOfAStranger",
		old: "(me.rolsuper OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))", new: "NOT pg_catalog.pg_has_role(r.oid, 'MEMBER')",
	},
	{
		file: "backend/redislock/event.go", test: "TestMessagesOfAStranger",
		old: "return proof == hex.EncodeToString(sum[:])[:20]", new: "_ = sum\n\treturn proof == proof+hex.EncodeToString(nil)",
	},
	{
		file: "driver/exchange/entry.go", pkg: "backend/redislock", test: "TestMessagesOfAStranger",
		old: "1 + rand.Uint64N(1<<53-1)", new: "1 + rand.Uint64N(1000)",
	},
	{
		file: "backend/redislock/event.go", test: "TestMessagesOfAStranger",
		old: "ev.Type = exchange.Removed", new: "ev.Type, ev.Unverified = exchange.Removed, false",
	},
	{
		file: "backend/redislock/event.go", test: "FuzzHear",
		old: "ev.Demand = driver.Revoke", new: "ev.Demand, ev.Unverified = driver.Revoke, false",
	},
	{
		file: "driver/exchange/event.go", test: "TestAnEventThatProvesNothingChangesNothing",
		old: "(t == 0 || t >= driver.MaxToken)", new: "t == 0",
	},
	{
		file: "driver/exchange/event.go", test: "TestAGrantBeforeTheReplyOfItsJoin",
		old: "\t\td.resyncs++ //", new: "\t\t_ = e //",
	},
	{
		file: "driver/exchange/await.go", test: "TestTheEventOfAGrantForAFixedTimeIsAskedAbout",
		old: "(e.proof != 0 || e.hold == 0)", new: "true",
	},
	{
		file: "driver/exchange/await.go", test: "TestAwaitOfATicketWhoseJoinHasNotArrived",
		old: "if e.state == unknown && e.underWay == 0 {", new: "if false {",
	},
	{
		file: "driver/exchange/change.go", test: "TestAChangedTicketIsNamedWithoutItsTag",
		old: "\t\te.tag = 0\n", new: "",
	},
	{
		file: "backend/sqlitelock/message.go", test: "FuzzMessage",
		old: "ts.byNumber[number{m.Queue, n}]", new: "ts.byNumber[number{\"other\", n}]",
	},
	{
		file: "driver/exchange/event.go", test: "TestARemovalThatProvesNothingIsAskedAbout",
		old: "\t\t\te.signal(driver.Evict)\n\t\t}\n\t\treturn err", new: "\t\t}\n\t\treturn err",
	},
	{
		file: "driver/exchange/renew.go", test: "TestAHeartbeatDoesNotKnowWhatMayCome",
		old: "\t\tcase f.unsound:\n\t\t\tcontinue\n", new: "",
	},
	{
		file: "driver/exchange/entry.go", test: "TestATicketIsOfOneSession",
		old: "\tcase e.s != s:\n\t\treturn nil, false, driver.ErrGone\n", new: "",
	},
	{
		file: "driver/exchange/join.go", test: "TestAQueueThatIsFoundUnsettledIsSettled",
		old: "\tif st.Unsettled {", new: "\tif st.Unsettled && err == nil {",
	},
	{
		file: "driver/exchange/settle.go", test: "TestAQueueThatIsFoundUnsettledIsSettled",
		old: "\tif unsettled {", new: "\tif unsettled && err == nil {",
	},
	{
		file: "driver/exchange/join.go", test: "TestATicketThatIsRemovedWhileItsJoinIsRepeated",
		old: "\tif e.state == gone {\n\t\treturn driver.Ticket{}, driver.ErrGone\n\t}\n", new: "",
	},
	{
		file: "driver/exchange/event.go", test: "TestATicketThatIsRemovedWhileItsJoinIsRepeated",
		old: "\t\te.signal(driver.Evict)\n\t\td.retire(e)", new: "\t\te.signal(driver.Evict)\n\t\td.drop(e)",
	},
	{
		file: "driver/exchange/event.go", pkg: "backend/redislock", test: "TestAGrantWithoutAProofIsAskedAbout",
		old: "\tdefault:\n\t\td.verify(e)", new: "\tcase ev.Type != Granted:\n\t\td.verify(e)",
	},
	{
		file: "backend/redislock/pipeline.go", test: "TestAFullServerCostsNoLease",
		old: "if !lost || s.usable(ctx) != nil {", new: "if lost || !lost {",
	},
	{
		file: "backend/redislock/pipeline.go", test: "TestAHeartbeatDoesNotWaitForItsConnection",
		old: "context.WithTimeout(ctx, limit)\n\tdefer cancel()\n\town", new: "context.WithTimeout(ctx, 40*limit)\n\tdefer cancel()\n\town",
	},
	{
		file: "backend/redislock/internal/conn/wire.go", pkg: "backend/redislock", test: "TestAFullServerIsNamed",
		old: "w.refusal = Refusal(kind)", new: "_ = Refusal(kind)",
	},
	{
		file: "backend/redislock/internal/conn/wire.go", test: "TestWhatIsNoAnswerEndsTheConnection",
		old: "\tcase len(w.pending) == 0:\n\t\treturn errUnasked\n", new: "\tcase len(w.pending) == 0:\n\t\treturn nil\n",
	},
	{
		file: "backend/redislock/internal/conn/wire.go", test: "TestWhatIsNoAnswerEndsTheConnection",
		old: "f.size += int64(n) * elementSize", new: "f.size += int64(n)",
	},
	{
		file: "backend/pglock/senders.go", test: "TestNewsOfAReader",
		old: "return x.known[process] && time", new: "return time",
	},
	{
		file: "backend/pglock/senders.go", test: "TestNewsOfAReader",
		old: "return x.known[process] && time.Since(x.at) < sendersLast", new: "return false",
	},
	{
		file: "backend/pglock/senders.go", test: "TestNewsOfAReader",
		old: "a.usesysid, $1::text, 'UPDATE')", new: "a.usesysid, $1::text, 'SELECT')",
	},
	{
		file: "backend/pglock/url.go", test: "TestWhoGetsThePasswordItself",
		old: "c.VerifyPeerCertificate != nil ||", new: "c.InsecureSkipVerify ||",
	},
	{
		file: "backend/mysqllock/internal/database/makers.go", pkg: "backend/mysqllock", test: "TestProceduresOfAStranger",
		old: "case !meta:", new: "case !meta && m.Me == \"\":",
	},
	{
		file: "backend/mysqllock/conn.go", test: "TestAnAnswerWithoutItsEnd",
		old: "return r.end(r.of.careful(r.RowsNextResultSet.Close))", new: "r.stop(); return r.RowsNextResultSet.Close()",
	},
	{
		file: "backend/mysqllock/wary.go", test: "TestWhoGetsThePassword",
		old: "len(b) == 5 && (b[4] == 1 || b[4] == 2)", new: "len(b) == 5 && b[4] == 1",
	},
	{
		file: "backend/mysqllock/dial.go", test: "TestWhoGetsThePassword",
		old: "!askKey && c.TLS == nil", new: "c.TLS == nil",
	},
	{
		file: "fence/table.go", pkg: "examples/internal/sqltest", test: "TestATokenThatIsNotStoredIsNotAccepted",
		old: "case seen < token:", new: "case false:",
	},
	{
		file: "fence/file.go", test: "TestTheWorkWaitsUntilItsTokenIsOnTheDisk",
		old: "\treturn f.Sync()", new: "\treturn nil",
	},
	{
		file: "fence/store.go", pkg: "examples/internal/sqltest", test: "TestTheStoreOfATable",
		old: "\tif err := s.in(ctx, resource, g, func() error { return nil }); err != nil {\n\t\treturn err\n\t}\n", new: "",
	},
	{
		file: "fence/fencehttp/fencehttp.go", test: "TestEachAnswerOfTheGuard",
		old: "len(values) > 1 ||", new: "len(values) > 2 ||",
	},
	{
		file: "fence/fencehttp/fencehttp.go", test: "TestTheTransportSendsTheTokenOfTheLease",
		old: "\t\terr = lease.Err()\n", new: "",
	},
	{
		file: "fence/fencehttp/fencehttp.go", test: "TestTheTransportSendsTheTokenOfTheLease",
		old: "fenced := r.Clone(r.Context())", new: "fenced := r",
	},
	{
		file: "once/table.go", pkg: "examples/internal/sqltest", test: "TestOnceAFailureLeavesNothing",
		old: "\t\t\t_ = tx.Rollback()\n", new: "",
	},
	{
		file: "once/table.go", pkg: "examples/internal/sqltest", test: "TestOnceAFunctionThatBreaksTheRules",
		old: "case !r.done:", new: "case false:",
	},
	{
		file: "once/table.go", pkg: "examples/internal/sqltest", test: "TestOnceAStaleGrantIsRefused|TestOnceAStoppedProcessSellsNothing",
		old: "token.Int64 < r.token.Int64:", new: "token.Int64 > r.token.Int64:",
	},
	{
		file: "once/table.go", pkg: "examples/internal/sqltest", test: "TestOnceAKeyOfAnotherRequestIsRefused",
		old: "_ = binary.Write(h, binary.BigEndian, uint64(len(part)))", new: "_ = binary.BigEndian",
	},
	{
		file: "once/table.go", pkg: "examples/internal/sqltest", test: "TestOnceATransactionThatEndedUnderItsFunction",
		old: "err == nil && n != 1", new: "err == nil && n > 1",
	},
	{
		file: "once/mysql.go", pkg: "examples/internal/sqltest", test: "TestOnceATransactionThatIsOlderThanTheResult",
		old: "return \" LOCK IN SHARE MODE\"", new: "return \"\"",
	},
	{
		file: "once/run.go", pkg: "examples/internal/sqltest", test: "TestOnceALostReplyOfTheCommit",
		old: "\t\topen = true\n\t\treturn &passing{err}", new: "\t\topen = true\n\t\treturn err",
	},
	{
		file: "once/run.go", pkg: "examples/internal/sqltest", test: "TestOnceALostReplyOfTheCommit",
		old: "\tcase open:", new: "\tcase false:",
	},
	{
		file: "internal/rows/errors.go", pkg: "examples/internal/sqltest", test: "TestOnceACommitThatIsRefused",
		old: "strings.HasPrefix(state(err), pgViolation) ||", new: "strings.HasPrefix(state(err), \"never\") ||",
	},
	{
		file: "once/sweep.go", pkg: "examples/internal/sqltest", test: "TestOnceASweepDeletesWhatIsOldEnough",
		old: "\t\tif len(keys) < batch {", new: "\t\tif len(keys) <= batch {",
	},
	{
		file: "cmd/interlock/internal/guard/main_unix.go", test: "TestGuardOfAKilledProgramGivesBackWhenTheJobIsGone",
		old: "now().Add(afterDeath)\n\t\t\t\tbreak", new: "now().Add(afterDeath)\n\t\t\t\treturn",
	},
	{
		file: "cmd/interlock/internal/guard/main_unix.go", test: "TestNothingIsGivenBackWhileTheProgramMayLive",
		old: "err != nil && complete", new: "(err != nil || true) && complete",
	},
	{
		file: "cmd/interlock/internal/guard/family_linux.go", test: "TestAReusedPidIsNotKilled",
		old: "|| state.parent != parent && state.parent != me {", new: "{",
	},
	{
		file: "cmd/interlock/internal/guard/family_linux.go", test: "TestAWardenThatHangsIsKilledLast",
		old: "\tf.warden = warden\n", new: "",
	},
	{
		file: "backend/sqlitelock/watcher.go", test: "TestOnlyThoseWhoWaitWatch",
		old: "waits || follows {", new: "waits || !follows {",
	},
	{
		file: "backend/sqlitelock/watcher.go", test: "TestARowThatNoSweepFindsIsLookedAtSeldom",
		old: "s.watcher.expect(s.now().add(time.Second))", new: "_ = next",
	},
	{
		file: "backend/sqlitelock/watcher.go", test: "TestDeathBetweenCommitAndMessage",
		old: "s.hear(exchange.Event{Type: exchange.Wake})", new: "_ = exchange.Wake",
	},
	{
		file: "backend/sqlitelock/message.go", test: "TestTheEndOfAFixedTimeIsNoEviction",
		old: "expired := !k.waits && ", new: "expired := false && ",
	},
	{
		file: "backend/sqlitelock/join.go", test: "TestATombstoneRefusesALateJoin",
		old: "\t\tif left {\n\t\t\treturn driver.ErrGone\n\t\t}\n", new: "\t\t_ = left\n",
	},
	{
		file: "backend/sqlitelock/renew.go", test: "TestUnfinishedGrantsGoOn",
		old: "st.Unsettled = q.stuck", new: "_ = q.stuck",
	},
	{
		file: "backend/sqlitelock/transaction.go", test: "TestARenewalOvertakesJoins",
		old: "keep    = how{in: keeping}", new: "keep    = how{in: coming}",
	},
	{
		file: "backend/sqlitelock/leave.go", test: "TestARenewalOvertakesJoins",
		old: "waits || l.Tombstone > 0 {", new: "waits || true {",
	},
	{
		file: "backend/sqlitelock/leave.go", test: "TestWhoWaitsHearsOfAnEarlierEnd",
		old: "t.notifyFirst(q, p.ends)", new: "t.notifyFirst(q, never)",
	},
	{
		file: "backend/redislock/lua/keep.lua", pkg: "backend/redislock", test: "TestWhoWaitsHearsOfAnEarlierEnd",
		old: "\tq.headless = true", new: "\tq.headless = false",
	},
	{
		file: "backend/sqlitelock/ask.go", test: "TestConformance$/Raise",
		old: "THEN max(floor, ?2) ELSE", new: "THEN max(floor, ?2 * 0) ELSE",
	},
	{
		file: "backend/sqlitelock/transaction.go", test: "TestWhatFailsAmongOthersLeavesNothing",
		old: "t.exec(\"ROLLBACK TO job\")", new: "t.exec(\"SELECT 1\")",
	},
	{
		file: "backend/sqlitelock/writelock.go", test: "TestACrowdIsBoundedAndRests",
		old: "\t\t\tl.rest(8 * time.Since(l.begun))\n", new: "",
	},
	{
		file: "backend/sqlitelock/queue.go", test: "TestNothingIsGrantedToTheDead",
		old: "gone, err := t.removeExpired(q, &in[i])", new: "gone, err := i < 0, error(nil)",
	},
	{
		file: "backend/sqlitelock/tidy.go", test: "TestWatchersThatAreGoneAreForgotten",
		old: "!s.file.folder.Has(post)", new: "false",
	},
	{
		file: "driver/exchange/join.go", pkg: "backend/sqlitelock", test: "TestARepeatedJoinThatIsGivenUpIsLookedFor",
		old: "e.wasSent = before", new: "e.wasSent = false",
	},
	{
		file: "backend/sqlitelock/join.go", test: "TestAJoinThatNeverCameIsLeftWithoutTheFile",
		old: "if err != nil && !sent {", new: "if err != nil && !sent && false {",
	},
	{
		file: "backend/zklock/hosts.go", test: "TestASoleServerIsTriedAgainAtOnce",
		old: " && !(len(h.addresses) == 1 && lasted)", new: " || lasted && false",
	},
	{
		file: "backend/zklock/config.go", test: "TestAServerProvesTheNameOfTheURL",
		old: "t.ServerName = name()", new: "t.ServerName, _, _ = net.SplitHostPort(address)",
	},
	{
		file: "backend/zklock/hosts.go", test: "TestAServerProvesTheNameOfTheURL",
		old: "return h.names[h.turn]", new: "return h.names[0]",
	},
	{
		file: "backend/redislock/lua/take.lua", pkg: "backend/redislock", test: "TestGarbageInATokenHarmsOneName",
		old: "if not number or number >= 2 ^ 51 then", new: "number = number or 0\nif last and string.sub(last, 1, 1) == 'r' then",
	},
	{
		file: "backend/redislock/lua/join.lua", pkg: "backend/redislock", test: "TestGarbageInATokenHarmsOneName",
		old: "if q.last ~= q.last then return reply(BACK) end", new: "if q.last ~= q.last then q.last = 0 end",
	},
	{
		file: "backend/redislock/lua/queue.lua", pkg: "backend/redislock", test: "TestWhoWaitsIsNotGrantedATokenThatCouldGoBack",
		old: "while q.last == q.last and q.waiting", new: "while q.waiting",
	},
	{
		file: "backend/redislock/lua/pass.lua", pkg: "backend/redislock", test: "TestWhoWaitsIsNotGrantedATokenThatCouldGoBack",
		old: "and last >= 0 and last < 2 ^ 51 and now < next", new: "and now < next",
	},
	{
		file: "backend/redislock/lua/take.lua", pkg: "backend/redislock", test: "TestGarbageInTheHighestTokenHarmsNoKnownName",
		old: "(not high or high > token + MINUTE)", new: "high and high > token + MINUTE",
	},
	{
		file: "backend/sqlitelock/queue.go", test: "TestGarbageInATokenHarmsOneName|TestGarbageInTheFloorHarmsNoKnownName",
		old: "	q.unknown = true\n", new: "",
	},
	{
		file: "backend/sqlitelock/queue.go", test: "TestGarbageInATokenHarmsOneName",
		old: "!q.unknown && q.waiting > 0 && q.used", new: "q.waiting > 0 && q.used",
	},
	{
		file: "backend/sqlitelock/tidy.go", test: "TestGarbageInATokenHarmsOneName",
		old: "if q.made || q.unknown || ", new: "if q.made || ",
	},
	{
		file: "backend/redislock/read.go", test: "TestGarbageInAQueueHarmsOneName",
		old: "if failed != nil && !illegible(failed) {", new: "if failed != nil {",
	},
	{
		file: "backend/redislock/cell.go", test: "TestGarbageInAQueueHarmsOneName",
		old: "case errs[i] != nil && !illegible(errs[i]):", new: "case errs[i] != nil:",
	},
	{
		file: "backend/zklock/tap.go", test: "TestANewConnectionIsNoSilentOne",
		old: "t.heard, t.spoke = nil, driver.Now()", new: "t.heard = nil",
	},
	{
		file: "backend/mysqllock/pool.go", test: "TestClientsOfAPoolShareItsLimiter",
		old: "l := shared.all[s.db]\n\tif l == nil {", new: "l := shared.all[s.db]\n\tif true {",
	},
	{
		file: "backend/redislock/internal/doctor/rights.go", pkg: "backend/redislock", test: "TestDoctorNamesEachRightThatIsMissing$",
		old: "\t\tt.lacks(channels, err)", new: "\t\tt.lacks(\"+\"+command, err)",
	},
	{
		file: "backend/pglock/internal/doctor/tables.go", test: "TestDoctorNamesEachRightThatIsMissing",
		old: "AND NOT has_function_privilege(p.oid, 'EXECUTE')", new: "AND false",
	},
	{
		file: "backend/mysqllock/mysqllock.go", pkg: "backend/mysqllock/internal/doctor", test: "TestDoctorNamesEachRightThatIsMissing",
		old: "Aside: s.aside,", new: "Aside: s.exchange,",
	},
	{
		file: "backend/zklock/internal/doctor/rights.go", test: "TestDoctorOfAPathThatMayNotBeMade",
		old: "\t\tt.missing = append([]string{top}, t.missing...)\n", new: "",
	},
	{
		file: "cmd/interlock/doctor.go", test: "TestDoctorWithoutRights",
		old: "findings...), err != nil || ctx.Err() != nil, nil", new: "findings...), true, nil",
	},
	{
		file: "backend/redislock/cell.go", test: "TestConformance/Cells",
		old: `return text == "1", nil`, new: `return text != "", nil`,
	},
	{
		file: "backend/zklock/meeting.go", test: "TestALateMemberIsNewsOfTheRound",
		old: "return driver.Cell{Version: uint64(c.stat.Pzxid),", new: "return driver.Cell{Version: round,",
	},
	{
		file: "backend/zklock/meeting.go", test: "TestALateMemberIsNewsOfTheRound",
		old: "members := l.tap.watch(q.path, true, bell)", new: "members := l.tap.watch(q.path, true, make(chan struct{}, 1))",
	},
	{
		file: "backend/zklock/cell.go", test: "TestConformance/Cells",
		old: "err == nil && cell.Exists {", new: "err == nil && (cell.Exists || true) {",
	},
	{
		file: "backend/sqlitelock/conn.go", test: "TestOpeningAFileWritesIntoNobodysMemory",
		old: "\tc.SetBusyTimeout(0)\n", new: "\tc.SetBusyTimeout(0)\n\tc.SetDefensive(true)\n",
	},
	{
		file: "backend/sqlitelock/internal/folder/life_unix.go", pkg: "backend/sqlitelock", test: "TestNoModeIsSetOutsideTheFolder",
		old: "if f.openTo(name) != nil {", new: "if os.Chmod(f.File(name), f.Mode) != nil {",
	},
	{
		file: "backend/sqlitelock/internal/folder/folder_linux.go", pkg: "backend/sqlitelock", test: "TestNoLinkIsFollowedOutOfTheFolder",
		old: "unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC", new: "unix.O_PATH|unix.O_CLOEXEC",
	},
	{
		file: "backend/sqlitelock/internal/folder/folder.go", pkg: "backend/sqlitelock", test: "TestAPipeInTheFolderKeepsNobodyWaiting",
		old: "how|trust.Nonblock", new: "how|trust.Nonblock*0",
	},
	{
		file: "backend/sqlitelock/internal/folder/folder.go", pkg: "backend/sqlitelock", test: "TestPermissions$",
		old: "Mode: ModeOf(mode)}", new: "Mode: mode}",
	},
	{
		file: "backend/sqlitelock/names.go", test: "TestNamesInTheFileAreChecked",
		old: `strings.Trim(id, "0123456789abcdef") == ""`, new: `id != ""`,
	},
	{
		file: "backend/sqlitelock/sweep.go", test: "TestNamesInTheFileAreChecked",
		old: "return checkAddress(o.address)", new: "return nil",
	},
	{
		file: "backend/sqlitelock/store.go", test: "TestNamesInTheFileAreChecked",
		old: "error { return checkMailbox(r.ColumnText(0)) }", new: "error { return nil }",
	},
	{
		file: "backend/sqlitelock/file.go", test: "TestWhoseFilesAreUsed",
		old: "if err := trust.File(f.path, st); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		file: "backend/sqlitelock/internal/folder/folder.go", pkg: "backend/sqlitelock", test: "TestWhoseFilesAreUsed",
		old: "if err := trust.Folder(f.Path, st, f.Mode); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		file: "backend/sqlitelock/internal/trust/trust_unix.go", pkg: "backend/sqlitelock", test: "TestWhoseFilesAreUsed",
		old: "\t\t\t} else if dir.Mode().Perm()&0o002 != 0 {", new: "\t\t\t} else if dir == nil {",
	},
	{
		file: "backend/sqlitelock/file.go", test: "TestAStrangeSchemaIsRefused",
		old: "version == layout && strange > 0", new: "version == layout && strange > 9",
	},
	{
		file: "backend/sqlitelock/internal/trust/trust_unix.go", pkg: "backend/sqlitelock", test: "TestTheFolderIsForThoseWhoWrite",
		old: "if !made && perm&^mode == 0 {", new: "if !made {",
	},
	{
		file: "cmd/interlock/backend.go", test: "TestTheDefaultFileIsNotInAnothersFolder",
		old: "err := own(base, dir); err != nil", new: "err := own(base, dir); err != nil && false",
	},
	{
		file: "cmd/interlock/job.go", test: "TestTheOpeningIsPartOfTheWait",
		old: "max(j.flags.wait-time.Since(begun), 0)", new: "max(j.flags.wait+time.Since(begun), 0)",
	},
	{
		file: "backend/zklock/sound.go", test: "TestAnAnswerThatCannotBeRead",
		old: "return !r.short && (timeout", new: "return !r.short || (timeout",
	},
	{
		file: "backend/zklock/sound.go", test: "TestAnAnswerThatCannotBeRead",
		old: "\tif n < 0 {\n", new: "\tif n < -1 {\n",
	},
	{
		file: "backend/zklock/sound.go", test: "TestAnAnswerThatCannotBeRead",
		old: "\t\tcase op == opSetData:\n\t\t\tr.bytes(statSize)\n", new: "\t\tcase op == opSetData:\n",
	},
	{
		file: "backend/zklock/wire.go", test: "TestAnAnswerThatCannotBeRead",
		old: "!soundReply(r.op, m[replyHead:])", new: "!soundReply(0, m[replyHead:])",
	},
	{
		file: "backend/zklock/driver.go", test: "TestOpeningOutlastsAConnection",
		old: "d.Now() >= until", new: "d.Now() < until",
	},
	{
		file: "backend/mysqllock/conn.go", test: "TestAnAnswerThatCannotBeRead",
		old: "\tif errors.Is(err, errAnswer) {\n\t\tc.dead = true\n\t}\n", new: "",
	},
	{
		file: "backend/sqlitelock/queue.go", test: "TestALongNoteCostsNoMemory",
		old: "iif(octet_length(owner) > 65536, '…', owner)", new: "owner",
	},
	{
		file: "backend/sqlitelock/read.go", test: "TestGarbageInAQueueHidesNoOther",
		old: "\tall.Kind, all.Capacity, all.Resized =", new: "\tall.Members = make([]driver.Member, 0, q.tickets)\n\tall.Kind, all.Capacity, all.Resized =",
	},
	{
		file: "backend/sqlitelock/queue.go", test: "TestAStrangeNameHidesNoOther",
		old: "typeof(name) = 'text' AND", new: "",
	},
	{
		file: "backend/sqlitelock/read.go", test: "TestAListEndsInAnyEncoding",
		old: "if name <= from || ", new: "if ",
	},
	{
		file: "backend/sqlitelock/queue.go", test: "TestALongNameCostsNoMemory",
		old: "iif(octet_length(kind) > 65536, '…', kind)", new: "kind",
	},
	{
		file: "backend/sqlitelock/queue.go", test: "TestALongNameCostsNoMemory",
		old: " AND octet_length(name) <= 528", new: "",
	},
	{
		file: "backend/pglock/store.go", test: "TestALongNoteCostsNoMemory",
		old: "pg_catalog.left(owner, 65536)", new: "owner",
	},
	{
		file: "backend/zklock/follow.go", test: "TestANodeThatNobodyMayReadHidesNoOther",
		old: "errors.Is(err, zk.ErrNoAuth) && name != \"\"", new: "false",
	},
	{
		file: "backend/zklock/follow.go", test: "TestANodeThatNobodyMayReadHidesNoOther",
		old: "len(found.Members) == 0 || errors.Is(err, zk.ErrNoAuth)", new: "len(found.Members) == 0",
	},
	{
		file: "backend/pglock/reading.go", test: "TestGarbageInAQueueHarmsOneName",
		old: "\tif !unsound(err) {\n", new: "\tif len(names) > 0 {\n",
	},
	{
		file: "backend/pglock/reading.go", test: "TestGarbageInAQueueHarmsOneName",
		old: "errors.As(err, &scan) || errors.As(err, &pg)", new: "errors.As(err, &scan) && errors.As(err, &pg)",
	},
	{
		file: "backend/pglock/pool.go", test: "TestAFrozenServerIsLeftInTime",
		old: "const parting = time.Second\n", new: "const parting = time.Minute\n",
	},
	{
		file: "backend/pglock/store.go", test: "TestALongNoteCostsNoMemory",
		old: "pg_catalog.left(kind, 65536)", new: "kind",
	},
	{
		file: "driver/clock_linux.go", pkg: "backend/etcdlock", test: "TestWallClocksThatAreSet",
		old: "import (\n\t\"syscall\"\n\t\"unsafe\"\n)\n\n// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2): CLOCK_MONOTONIC plus\n// the time that the machine was suspended, during which servers go on counting\n// down a lease.\nconst clockBoottime = 7\n\n// Now reads the steady clock of this machine.\nfunc Now() Instant {\n\tvar ts syscall.Timespec\n\tif _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {\n\t\tpanic(\"interlock: clock_gettime(CLOCK_BOOTTIME): \" + errno.Error())\n\t}\n\treturn Instant(ts.Nano())",
		new: "import \"time\"\n\n// Now reads the wall clock.\nfunc Now() Instant {\n\treturn Instant(time.Now().UnixNano())",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestAGrantThatFindsNoRoomWaitsForIt",
		old: "st = l.s.status(t.ticket, place{})\n", new: "\n",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestAHolderBehindAStuckLeaderGivesUpBeforeTheNextOneHolds",
		old: "\tswitch err := l.run(ctx); {\n\tcase err != nil:\n\t\treturn r, err\n",
		new: "\tl.terms[term] = true\n\tfor i, ref := range refs {\n\t\tl.found[i] = exchange.Status{State: exchange.Waiting, Tag: ref.Tag}\n\t}\n\tswitch {\n",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestWhoIsBehindAWaiterThatGivesUpWaits",
		old: "behind = len(all) > 0 && string(all[0].Value) == strconv.FormatInt(created, 10)", new: "behind = len(all) > 0 && strconv.FormatInt(created, 10) != \"\"",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "TestWhoIsBehindAWaiterThatGivesUpWaits",
		old: "if exclusive && l.Tag&tagWaited != 0 {", new: "if true {",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestAHandOffCostsTheSameInACrowd",
		old: "tagExclusive == 0):\n\t\t\tst.Tag |= tagWaited\n", new: "tagExclusive == 0):\n",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestAHolderIsToldThatItsLeaseWasRevoked",
		old: "case !ofTicket && ev.Type == mvccpb.DELETE:", new: "case !ofTicket && ev.Type == mvccpb.DELETE && id != \"\":",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestConformance$/^installed$/LeaveBeforeItsJoin",
		old: "\t\t\t\tclientv3.Compare(clientv3.CreateRevision(tombstone), \"=\", 0),\n", new: "",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestAWaiterLooksIfItsWatchMayHaveBegunTooLate",
		old: "return begun <= t.read", new: "return true",
	},
	{
		file: "backend/etcdlock/watch.go", test: "TestAWaiterLooksIfItsWatchMayHaveBegunTooLate",
		old: "return begun <= t.read", new: "return false",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestNewcomersOfOneQueueShareNoTransaction",
		old: "func(o *part) bool { return near(o.queue, p.queue) }", new: "func(*part) bool { return false }",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestLocksBelowEachOtherShareNoTransaction",
		old: "(len(a) == len(b) || b[len(a)] == '/')", new: "len(a) == len(b)",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestAChangeThatIsRefusedTakesNoOtherWithIt",
		old: "case notMade(of.err):", new: "case false:",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestAChangeThatIsRefusedTakesNoOtherWithIt",
		old: "code = said.Code()", new: "_ = said",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestAChangeDoesNotWaitForOthersThatAreStuck",
		old: "if g.next == next {", new: "if false {",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestAChangeWhoseCallerGivesUpIsNotMade",
		old: "return p.ctx.Err() != nil", new: "return false",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestTogetherNobodyJoinsInAFullDatabase",
		old: "s.change(ctx, nil, ops, named)", new: "s.change(ctx, nil, ops, nil)",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestTogetherAUserNeedsItsRights",
		old: "s.change(ctx, nil, ops, named)", new: "s.change(ctx, nil, ops, nil)",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestLocksOfManyNamesShareTransactions",
		old: "if g.underWay < perClient ||", new: "if true ||",
	},
	{
		file: "backend/etcdlock/together.go", test: "TestLocksOfManyNamesShareTransactions",
		old: "len(of.parts) == perShared {", new: "false {",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestANewcomerTakesOneExchangeInAShortQueue",
		old: "s.front(t.queue, 0, perJoin, false),", new: "s.front(t.queue, 0, 2, false),",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestANewcomerTakesOneExchangeInAShortQueue",
		old: "case q.last != nil:", new: "case false:",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestATicketThatComesWhileManyAreReadIsNotGranted",
		old: "if t.created > l.queues[t.queue].read {", new: "if false {",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhoSetsPermitsMayDieInTheMiddle$",
		old: "if q.number.open() && !l.watch {", new: "if false {",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhoSetsPermitsMayDieInTheMiddle$",
		old: "clientv3.WithRev(set-1)", new: "clientv3.WithRev(set)",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhoSetsPermitsMayDieBeforeACompaction$",
		old: "n.Perhaps = ln.number.Perhaps", new: "n.Perhaps = 0",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhoSetsPermitsMayDieBeforeACompaction$",
		old: "t.created > max(ln.number.Held, ln.number.Perhaps) && (", new: "(",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestTwoSetPermitsAtOnce$",
		old: "[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.floor(some[0].queue)), \"=\", k.written)}", new: "nil",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestTwoSetPermitsAtOnce$",
		old: "[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), \"=\", k.written)}", new: "nil",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhoHasAllPermitsThatAreSetIsInherited$",
		old: "func(o *ticket) bool { return o.id == m.ID }", new: "func(o *ticket) bool { return false }",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestPermitsAreSetBehindKeysOfQueuesBelow$",
		old: "ln.number.Unset && (len(ln.tickets) == 0 ||", new: "false && (len(ln.tickets) == 0 ||",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestATicketOfAnotherNumberThanThatIsSetDoesNotHold$",
		old: "return n > 0 && !t.foreign && t.created > ln.number.Set &&", new: "return false && n > 0 &&",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestWhoSetsPermitsMayDieBeforeACompaction$",
		old: "return t.sure || t.Held ||", new: "return t.Held ||",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestPermitsAreSetBehindKeysOfQueuesBelow$",
		old: "t.stays() || t.created <= ln.number.Held", new: "t.stays()",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestWhatHoldsBeyondTheNumber$",
		old: "return free < 0 && o.created > ln.number.Held", new: "return free < 0",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestWhatHoldsBeyondTheNumber$",
		old: " && ln.upTo >= max(ln.number.Held, ln.number.Perhaps)", new: "",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestWhoHoldsBesideAnotherOneIsNotInherited$",
		old: "p.exclusive = p.held && !beside &&", new: "p.exclusive = p.held && (!beside || beside) &&",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestANumberAndAFloorAreKeptBesideEachOther$",
		old: "slices.Insert(slices.Clone(all), 0, ", new: "slices.Insert(slices.Clone(all), len(all), ",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAHandOverWaitsForAllThatHoldBeyondTheNumber$",
		old: "case q.number.Permits > 0, ", new: "case q.number.Permits < 0, ",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestWhoHasAllPermitsThatAreSetIsInherited$",
		old: " || t.exclusive && known&tagExclusive == 0)", new: ")",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAWaiterIsJudgedByTheNumberOfItsTime$",
		old: "if q.semaphore {", new: "if false {",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestALineIsReadByTheNumberOfItsTime$",
		old: "clientv3.WithRev(ln.at)", new: "clientv3.WithRev(0)",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAQueueIsReadInOneTransaction$",
		old: "l.together(3)", new: "l.together(1)",
	},
	{
		file: "backend/etcdlock/join.go", test: "^TestANewcomerIsJudgedByTheNumberOfItsTime$",
		old: "if t.Kind == driver.Semaphore {\n\t\tb.get(", new: "if false {\n\t\tb.get(",
	},
	{
		file: "backend/etcdlock/join.go", test: "^TestWhoComesToHoldBySetPermitsIsNotRemoved$",
		old: "stand = append(stand, clientv3.Compare(clientv3.ModRevision(s.floor(t.queue)), \"=\", ln.written))", new: "",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "^TestWhoHasNotAllPermitsEndsNothing$",
		old: "if l.Tag&tagSemaphore != 0 {", new: "if false {",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "^TestWhoSetsPermitsMayDieBeforeACompaction$",
		old: "o.ID == \"\" && t.created <= q.number.Perhaps)", new: "false)",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "^TestAWaiterThatIsEvictedAsMorePermitsAreSetIsEvictedAsAHolder$",
		old: "if when = p.keepers(t); t.Kind == driver.Semaphore {", new: "if when = p.keepers(t); false {",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "^TestWhatIsNoNumberOfPermitsGrantsNothing$",
		old: "(l.err != nil || ", new: "(",
	},
	{
		file: "backend/etcdlock/watch.go", test: "^TestAWaiterIsToldOfAnotherNumber$",
		old: "if t.Kind == driver.Semaphore {\n\t\tkey, end", new: "if false {\n\t\tkey, end",
	},
	{
		file: "backend/etcdlock/watch.go", test: "^TestAWaiterIsToldOfAnotherNumber$",
		old: "return t.event.Type != exchange.Wake || r.Created ||", new: "return true ||",
	},
	{
		file: "backend/etcdlock/watch.go", test: "^TestAWatchOfNumbersMissesNone$",
		old: "what.read = min(what.read, t.read)", new: "_ = what",
	},
	{
		file: "backend/etcdlock/watch.go", test: "^TestAWatchOfNumbersMissesNone$",
		old: "(purpose != ofNumbers || max(t.begun, t.brought) <= what.read)", new: "true",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestANumberOfAnotherClusterGrantsNobody$",
		old: " && n.Set <= written &&", new: " &&",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhatIsNoNumberOfPermitsGrantsNothing$",
		old: "min(n.Held, n.Perhaps) >= 0 &&", new: "",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhatIsNoNumberOfPermitsGrantsNothing$",
		old: "max(n.Held, n.Perhaps) <= n.Set &&", new: "",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestWhatIsNoNumberOfPermitsGrantsNothing$",
		old: "n.Permits >= min(n.Held, 1)", new: "n.Permits >= 0",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestAHeartbeatFindsOutOnceWhoWasHeld$",
		old: "n.Perhaps, ln = n.Set-1, &line{}", new: "ln = &line{}",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestANumberThatIsTakenBackLeavesNothing$",
		old: "case len(ln.tickets) > 0 && ln.permits() > 0:", new: "case true:",
	},
	{
		file: "backend/etcdlock/resize.go", test: "^TestTokensAreRaisedWhileANumberIsSet$",
		old: "made || !now.number.open()", new: "made || now.number.open()",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestANumberInAFullDatabaseFailsNoHeartbeat$",
		old: "case err != nil && t.stays():", new: "case false:",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestANumberInAFullDatabaseFailsNoHeartbeat$",
		old: "case err != nil && t.stays():", new: "case err != nil && t.sure:",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "^TestWhoHasNotHeardOfItsGrantInheritsNothing$",
		old: "knows := t.stays() ||", new: "knows := t.stays() || l.Tag == 0 ||",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestATicketOfAnotherNumberThanThatIsSetDoesNotHold$",
		old: "case !t.held && t.of(l.session) && q.unfit(t.ticket):", new: "case false:",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAKeyThatCannotBeReadFailsNoHeartbeat$",
		old: "case wrong && !t.sure && !t.Held:", new: "case false:",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAKeyThatCannotBeReadFailsNoHeartbeat$",
		old: "case wrong && !t.sure && !t.Held:", new: "case wrong:",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAKeyThatCannotBeReadFailsNoHeartbeat$",
		old: "case wrong:\n\t\t\tst.Tag = known\n", new: "",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAKeyThatCannotBeReadFailsNoHeartbeat$",
		old: "err = l.err", new: "err = nil",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestWhoHoldsByANumberThatIsLostStays$",
		old: ", number: number{Set: k.written, Perhaps: k.written}", new: "",
	},
	{
		file: "backend/etcdlock/join.go", test: "^TestWhoHoldsByANumberThatIsLostStays$",
		old: "return t.odd(o) && o.created > ln.number.Perhaps", new: "return t.odd(o)",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestATagSaysNothingOfAnotherTicket$",
		old: " && tag>>tagBits == uint64(t.created)", new: "",
	},
	{
		file: "backend/etcdlock/layout.go", test: "^TestAHolderThatShrinksHoldsTheRest$",
		old: "return t.sure || t.Held ||", new: "return t.sure ||",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "^TestAHolderThatShrinksHoldsTheRest$",
		old: "t.Units, t.Held = units, p.held", new: "t.Units = units",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "^TestWhoHasNotHeardOfItsGrantInheritsNothing$",
		old: "p.exclusive && knows, l.Clean", new: "p.exclusive && (knows || !knows), l.Clean",
	},
	{
		file: "backend/etcdlock/watch.go", test: "^TestAWaiterThatIsNotNotedYetHearsOfTheNumber$",
		old: "max(t.begun, t.brought) <= what.read", new: "t.begun <= what.read",
	},
	{
		file: "backend/etcdlock/look.go", test: "^TestAGrantThatFailsFailsNoHeartbeat$",
		old: "case err != nil && !l.watch:", new: "case false:",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "TestALateDetachTakesNothingBack",
		old: "pending := s.detaching[ref.ID]", new: "pending := false",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestSeatsAreForgotten",
		old: "if len(s.seats) >= maxSeats {", new: "if false {",
	},
	{
		file: "backend/etcdlock/layout.go", test: "TestManyUsesOfALockTakeFewKeys",
		old: "\"-\" + id[:1]", new: "\"-\" + id",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestTicketsOfOneSeat",
		old: "if by.id == \"\" || by.id == t.id {", new: "if by.id == \"\" {",
	},
	{
		file: "backend/etcdlock/join.go", test: "TestALateJoinBesideItsSeatMakesNoSecondTicket",
		old: "clientv3.Compare(clientv3.CreateRevision(seat), \"=\", by.created), ", new: "",
	},
	{
		file: "backend/etcdlock/layout.go", test: "TestATicketOfAnotherProgramTakesAll",
		old: "ln.capacity(o) != c {\n\t\treturn c", new: "ln.capacity(o) != c {\n\t\treturn o.Units",
	},
	{
		file: "backend/etcdlock/layout.go", test: "TestALockBelowAnotherOneIsAnother",
		old: "if strings.Contains(id, \"/\") {", new: "if id == \"\" {",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestAPermitThatComesFreeIsPassedOn",
		old: "case waited && !exclusive", new: "case waited && exclusive",
	},
	{
		file: "backend/etcdlock/look.go", test: "TestAGrantThatIsSeenAgainInheritsAgain",
		old: "(m.ID != t.id || m.Inherited)", new: "m.ID != t.id",
	},
	{
		file: "backend/etcdlock/store.go", test: "TestConformance$/^installed$/RenewOfFixedTickets",
		old: "max(0, left-time.Second)", new: "max(0, left)",
	},
	{
		file: "backend/etcdlock/tickets.go", test: "TestConformance$/^installed$/Raise",
		old: "add = max(add, least+1-next)", new: "add = max(add, least-next)",
	},
	{
		file: "driver/exchange/join.go", test: "TestATicketThatEndsWithItsSessionIsProvenByHeartbeats",
		old: "case s.d.traits.WithSession, r.Retry", new: "case r.Retry",
	},
	{
		file: "driver/exchange/entry.go", test: "TestManyTicketsWhoseLeavesAFailoverHasLost",
		old: " || len(s.orphans) >= maxOrphans {", new: " {",
	},
	{
		file: "driver/exchange/reconcile.go", test: "TestManyTicketsWhoseLeavesAFailoverHasLost",
		old: "&& !s.addOrphan(t, 2*s.ttl) {\n\t\t\t\treturn", new: "&& !s.addOrphan(t, 2*s.ttl) {\n\t\t\t\tbreak",
	},
	{
		file: "driver/exchange/driver.go", test: "TestAQuestionWithoutAnAnswerIsAskedAgain",
		old: "\t\t\td.running.End(name)\n", new: "",
	},
	{
		file: "driver/exchange/entry.go", test: "TestAHeartbeatThatIsAnsweredLate",
		old: "e.proof = max(e.proof, sent)", new: "if sent != 0 {\n\t\t\te.proof = sent\n\t\t}",
	},
	{
		file: "driver/exchange/entry.go", test: "TestWaitersLookInTheirOrder",
		old: "time.Duration(ahead)*e.s.ttl/160", new: "time.Duration(ahead)",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestTheSameEndIsTheSameState",
		old: "return q.Tickets[i].End }", new: "return q.Now.Round(0).Add(s.Members[i].Left) }",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestTheRuleOfAQueue",
		old: "if free -= t.Units; free < 0 {", new: "if t.Units > free {\n\t\t\tcontinue\n\t\t}\n\t\tif free -= t.Units; free < 0 {",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestTheRuleOfAQueue",
		old: "\t\tq.remove(t, l.Clean)\n\t\tq.settle()\n", new: "\t\tq.remove(t, l.Clean)\n",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestTheRuleOfAQueue",
		old: "q.Token = max(q.Token+1, q.clock())", new: "q.Token = q.clock()",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestTheRuleOfAQueue",
		old: "t.End, q.Changed = q.Now.Add(t.Session.TTL), true", new: "t.End = q.Now.Add(t.Session.TTL)",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestTheRuleOfAQueue",
		old: "t.Revoked, q.Changed = true, true", new: "t.Revoked = true",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestATombstoneEndsAtItsTime",
		old: "\t\t\tq.bury(t.ID, t.Session.TTL) // a late copy of its Join is refused\n", new: "",
	},
	{
		file: "driver/exchange/rows/queue.go", test: "TestAnEmptyRow",
		old: "&& !q.Unclean && !q.Resized", new: "&& !q.Resized",
	},
	{
		file: "driver/exchange/rows/cell.go", test: "TestASwapThatIsRepeated",
		old: "Conflict: c.Version != s.Version, End: c.Now.Add(driver.SwapMemory)", new: "Conflict: c.Version != s.Version, End: c.Now",
	},
	{
		file: "driver/exchange/rows/rows.go", test: "TestASwapThatIsRepeated",
		old: "\t*followers = nil\n", new: "",
	},
	{
		file: "driver/exchange/event.go", test: "TestTheEndOfASessionIsAskedFor",
		old: "e.s.row.ID == ev.ID {", new: "e.s.row.ID == ev.Cell {",
	},
	{
		file: "backend/filelock/locks.go", test: "TestAFileThatIsReplacedLosesTheLease",
		old: "return !f.has || f.id.isOf(", new: "return true || f.id.isOf(",
	},
	{
		file: "backend/filelock/store.go", test: "TestAJoinThatEndsBeforeTheFileIsUnlockedSaysSo",
		old: "&& x.unlockable == nil\n", new: "&& x.unlockable == nil && ctx.Err() == nil\n",
	},
	{
		file: "backend/filelock/store.go", test: "TestReadersShareWithFlock",
		old: "x.mine(t) && !s.locks.share(t.ID) {", new: "x.mine(t) && false {",
	},
	{
		file: "backend/filelock/queue.go", test: "TestAKilledHolderIsReplacedAtOnce",
		old: "t.End > x.now && (!t.Held || t.Fixed || !x.s.dead(t.Session))", new: "t.End > x.now",
	},
	{
		file: "backend/filelock/mailbox.go", test: "TestWaitersBehindFlockAreServedInOrder|TestAKilledHolderIsReplacedAtOnce",
		old: "s.deliver(exchange.Event{Type: exchange.Wake})", new: "_ = exchange.Wake",
	},
	{
		file: "backend/filelock/row.go", test: "TestACrashAtAnyByteLeavesTheOldRowOrTheNewOne",
		old: "if kept == first {", new: "if kept != first {",
	},
	{
		file: "backend/filelock/row.go", test: "TestACrashAtAnyByteLeavesTheOldRowOrTheNewOne",
		old: "kept := slot == p.row || slot >=", new: "kept := slot >=",
	},
	{
		file: "backend/filelock/row.go", test: "TestACrashAtAnyByteLeavesTheOldRowOrTheNewOne",
		old: "if torn > 1 {", new: "if torn > 0 {",
	},
	{
		file: "backend/filelock/row.go", test: "TestACrashAtAnyByteLeavesTheOldRowOrTheNewOne",
		old: "return text, h.sums == sum(b, text)", new: "return text, uint32(h.sums) == uint32(sum(b, nil))",
	},
	{
		file: "backend/filelock/row.go", test: "TestAPowerLossLeavesWhatWasDurable",
		old: "\tif durable {\n\t\tfirst", new: "\tif false {\n\t\tfirst",
	},
	{
		file: "backend/filelock/row.go", test: "TestAPowerLossLeavesWhatWasDurable",
		old: "older := h.boot != boot &&", new: "older := false &&",
	},
	{
		file: "backend/filelock/rowfile.go", test: "TestNoTwoHoldWhileRowsAreRemoved",
		old: "return syscall.Lstat(path, &st) == nil && id ==", new: "return true || id ==",
	},
	{
		file: "backend/filelock/tidy.go", test: "TestTidyForgetsRowsThatSayNothing",
		old: "== 0 && !x.Unclean &&", new: "== 0 &&",
	},
	{
		file: "backend/filelock/queue.go", test: "TestTidyForgetsRowsThatSayNothing",
		old: "\t\t\tq.Token = floor", new: "\t\t\t_ = floor",
	},
	{
		file: "backend/filelock/shared.go", test: "TestNoModeIsGivenThroughALink",
		old: "syscall.O_DIRECTORY|syscall.O_NOFOLLOW", new: "syscall.O_DIRECTORY",
	},
	{
		file: "backend/filelock/socket_linux.go", test: "TestNoModeIsGivenThroughALink",
		old: "st.Mode().Type() != fs.ModeSocket || owner(st) != os.Geteuid()", new: "st == nil",
	},
	{
		file: "backend/filelock/shared.go", test: "TestTwoUsersShareADirectory",
		old: "f.Chmod(mode|fs.ModeSetgid) == nil", new: "f.Chmod(mode) == nil",
	},
	{
		file: "backend/filelock/dir.go", test: "TestTwoUsersShareADirectory",
		old: "if err = f.Chmod(d.mode); err != nil {", new: "if err = nil; err != nil {",
	},
	{
		file: "backend/filelock/dir.go", test: "TestADirectoryIsMadeForAll",
		old: "d.setMode(d.path, fs.ModeSticky)", new: "d.setMode(d.path, 0)",
	},
	{
		file: "backend/filelock/shared.go", test: "TestWhatAnotherUserHasJustMadeIsWaitedFor",
		old: "if err == nil || !d.shared() || n == 100 {", new: "if true {",
	},
	{
		file: "backend/filelock/shared.go", test: "TestWhatAUserMayNotUseIsRefused",
		old: "return driver.Permanent(fmt.Errorf(", new: "return driver.Passing(fmt.Errorf(",
	},
	{
		file: "backend/filelock/dir.go", test: "TestWhatAUserMayNotUseIsRefused",
		old: "case !ours(st) && !d.shared():", new: "case false:",
	},
	{
		file: "backend/filelock/dir.go", test: "TestWhatAUserMayNotUseIsRefused",
		old: "owner(st) != os.Geteuid():", new: "false:",
	},
	{
		file: "backend/filelock/dir.go", test: "TestWhatAUserMayNotUseIsRefused",
		old: "case st.Mode()&0o022 != d.folderMode()&0o022:", new: "case st.Mode()&0o022&^d.folderMode() != 0:",
	},
	{
		file: "backend/filelock/store.go", test: "TestAWaiterThatMayNotLockTheFileFails",
		old: "return x.unlockable", new: "return nil",
	},
	{
		file: "backend/filelock/locks.go", test: "TestAForkedChildKeepsNoLockThatIsReleased|TestAChildInheritsNoLock",
		old: "_ = flock.Unlock(f.file)", new: "_ = flock.Unlock",
	},
}
