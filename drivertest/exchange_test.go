package drivertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// exchanges is a world of package exchange on a backend in memory, which has faults.
func exchanges(faults ...exchangetest.Fault) func(testing.TB) World {
	return func(testing.TB) World {
		w := exchangetest.NewWorld(faults...)
		return World{
			Open:         func(context.Context) (driver.Driver, error) { return w.Store().Driver(), nil },
			Hang:         w.Hang,
			Late:         w.HoldReplies,
			LoseMessages: w.LoseEvents,
		}
	}
}

var inOneProcess = map[string]string{"UnreachableBackend": "memory is always there"}

func TestExchange(t *testing.T) {
	Run(t, Backend{World: exchanges(), Unsupported: inOneProcess, TTL: 200 * time.Millisecond})
}

func TestExchangeInSimulatedTime(t *testing.T) {
	Run(t, Backend{World: exchanges(), Unsupported: inOneProcess, TTL: 10 * time.Second, Simulated: true})
}

func TestExchangeWithoutRowsOfSessions(t *testing.T) {
	Run(t, Backend{World: rowless(), Unsupported: inOneProcess, TTL: 10 * time.Second, Simulated: true, Small: true})
}

// rowless is exchanges for stores without rows of sessions.
func rowless(faults ...exchangetest.Fault) func(testing.TB) World {
	return func(testing.TB) World {
		w := exchangetest.NewWorld(faults...)
		return World{
			Open:         func(context.Context) (driver.Driver, error) { return w.Rowless().Driver(), nil },
			Hang:         w.Hang,
			Late:         w.HoldReplies,
			LoseMessages: w.LoseEvents,
		}
	}
}

// storeFaults has the rules that notice a Store that breaks a sentence of its contract.
var storeFaults = map[exchangetest.Fault]string{
	exchangetest.Prefix:                 "PrefixOfTheQueue ReadersAndWriters",
	exchangetest.GrantInTheSameExchange: "LeaveGrantsTheNext HandOverCost",
	exchangetest.OverIsOver:             "WhatHasEndedIsNotRenewed",
	exchangetest.OneTicket:              "LostAnswers",
	exchangetest.Buried:                 "LeaveBeforeItsJoin",
	exchangetest.TokensGrow:             "TokensOfExclusiveGrants",
	exchangetest.Told:                   "AwaitReturnsOnceHeld HandOverCost",
	exchangetest.OnlyOnce:               "SwapIsIdempotent",
	exchangetest.End:                    "SessionClose",
	exchangetest.EndQueues:              "SessionClose",
	exchangetest.Shrink:                 "Shrink",
	exchangetest.Keep:                   "KeepOfWhatCannotBeKept",
	exchangetest.Renew:                  "RenewSaysWhatBecame",
	exchangetest.Detach:                 "RenewOnlyWhatIsKnown",
	exchangetest.Attach:                 "RenewOfAStray",
	exchangetest.Look:                   "LeftStaysLeft",
	exchangetest.Settle:                 "ExpiryOfAHeldTicket",
	exchangetest.Ask:                    "LostMessages",
	exchangetest.Raise:                  "Raise",
	exchangetest.Read:                   "FollowIsTold",
	exchangetest.Load:                   "WatchIsTold",
	exchangetest.Withdraw:               "LeaveIsIdempotent LostReplies",
	exchangetest.Begin:                  "Proof",
	exchangetest.Clock:                  "Raise",
	exchangetest.List:                   "ManyQueues",
	exchangetest.Cells:                  "Cells",
}

// rowlessFaults are those of stores without rows of sessions.
var rowlessFaults = map[exchangetest.Fault]string{
	exchangetest.Extend:  "RenewOnlyWhatIsKnown",
	exchangetest.Leavers: "SessionClose",
}

// Promise: a Store that breaks a sentence of its contract fails, and the failure says which
// promise to users is broken by that.
func TestFaultsOfAStoreAreNoticed(t *testing.T) {
	quick(t)
	suite.OneProcessor(t)
	for _, fault := range exchangetest.Faults {
		rules, known := storeFaults[fault]
		world := exchanges(fault)
		if !known {
			rules, known = rowlessFaults[fault]
			world = rowless(fault)
		}
		if !known {
			if !slices.Contains(exchangetest.InScenarios, fault) {
				t.Errorf("nothing is known to notice %s", fault)
			}
			continue
		}
		t.Run(string(fault), func(t *testing.T) {
			b := Backend{World: world, TTL: 10 * time.Second, Simulated: true, Small: true}
			for name := range strings.FieldsSeq(rules) {
				r, ok := find(name)
				if !ok {
					t.Errorf("there is no rule %s", name)
					continue
				}
				failure := ""
				synctest.Test(t, func(t *testing.T) {
					failure = r.verdict(t, b, r.variants("", "")[0])
					time.Sleep(200 * limit) // what it has left behind ends
				})
				if failure == "" {
					t.Errorf("%s does not notice", name)
					continue
				}
				if !strings.Contains(failure, r.says[0]) {
					t.Errorf("%s does not say which promise was broken: %s", name, failure)
				}
				t.Logf("%s: %s", name, strings.SplitN(failure, "\n", 2)[0])
			}
		})
	}
}
