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

// exchangeClient makes a client of a world of package exchange, which is a backend in memory.
type exchangeClient func(testing.TB, *exchangetest.World) driver.Driver

func withRows(_ testing.TB, w *exchangetest.World) driver.Driver { return w.Store().Driver() }

func withoutRows(_ testing.TB, w *exchangetest.World) driver.Driver { return w.Rowless().Driver() }

func withOptions(t testing.TB, w *exchangetest.World) driver.Driver {
	return w.Optional(t.TempDir()).Driver()
}

// exchanges is a world of such clients, which has faults.
func exchanges(client exchangeClient, faults ...exchangetest.Fault) func(testing.TB) World {
	return func(t testing.TB) World {
		w := exchangetest.NewWorld(faults...)
		return World{
			Open:         func(context.Context) (driver.Driver, error) { return client(t, w), nil },
			Hang:         w.Hang,
			Late:         w.HoldReplies,
			LoseMessages: w.LoseEvents,
		}
	}
}

// A store that has only what each must have cannot do some things.
var withoutOptions = and(inOneProcess, map[string]string{
	"Resize":               "the store has no Resize",
	"ResizeIsKept":         "the store has no Resize",
	"InheritedAfterResize": "the store has no Resize",
})

func TestExchange(t *testing.T) {
	Run(t, Backend{World: exchanges(withRows), Unsupported: inOneProcess, TTL: 200 * time.Millisecond})
}

func TestExchangeInSimulatedTime(t *testing.T) {
	Run(t, Backend{World: exchanges(withRows), Unsupported: inOneProcess, TTL: 10 * time.Second, Simulated: true})
}

func TestExchangeWithoutRowsOfSessions(t *testing.T) {
	Run(t, Backend{World: exchanges(withoutRows), Unsupported: withoutOptions, TTL: 10 * time.Second, Simulated: true, Small: true})
}

// storeFaults has the rules that notice a Store that breaks a sentence of its contract.
var storeFaults = map[exchangetest.Fault]string{
	exchangetest.Prefix:                 "PrefixOfTheQueue ReadersAndWriters",
	exchangetest.GrantInTheSameExchange: "LeaveGrantsTheNext HandOverCost",
	exchangetest.OverIsOver:             "WhatHasEndedIsNotRenewed",
	exchangetest.OneTicket:              "LostAnswers",
	exchangetest.Found:                  "Repeater",
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
	exchangetest.Resize:                 "ResizeIsKept",
	exchangetest.GrantInResize:          "Resize",
	exchangetest.Read:                   "FollowIsTold",
	exchangetest.Load:                   "WatchIsTold",
	exchangetest.Withdraw:               "LeaveIsIdempotent LostReplies",
	exchangetest.Begin:                  "Proof",
	exchangetest.Clock:                  "Raise",
	exchangetest.List:                   "ManyQueues",
	exchangetest.Cells:                  "Cells",
	exchangetest.GrantInWithdraw:        "PrefixOfTheQueue ReadersAndWriters",
	exchangetest.GrantInAsk:             "Force",
	exchangetest.Extend:                 "RenewOnlyWhatIsKnown",
	exchangetest.Leavers:                "SessionClose",
	exchangetest.GrantInEnd:             "SessionClose",
	exchangetest.RaiseAll:               "Raise",
}

// faultyClients are those of a fault that clients with rows of sessions have not.
var faultyClients = map[exchangetest.Fault]exchangeClient{
	exchangetest.Extend:     withoutRows,
	exchangetest.Leavers:    withoutRows,
	exchangetest.GrantInEnd: withoutRows,
	exchangetest.RaiseAll:   withOptions,
}

// Promise: a Store that breaks a sentence of its contract fails, and the failure says which
// promise to users is broken by that.
func TestFaultsOfAStoreAreNoticed(t *testing.T) {
	quick(t)
	suite.OneProcessor(t)
	for _, fault := range exchangetest.Faults {
		bites, known := storeFaults[fault]
		client := faultyClients[fault]
		if client == nil {
			client = withRows
		}
		if !known {
			if !slices.Contains(exchangetest.InScenarios, fault) {
				t.Errorf("nothing is known to notice %s", fault)
			}
			continue
		}
		t.Run(string(fault), func(t *testing.T) {
			b := Backend{World: exchanges(client, fault), TTL: 10 * time.Second, Simulated: true, Small: true}
			for name := range strings.FieldsSeq(bites) {
				r, ok := rules.Find(name)
				if !ok {
					t.Errorf("there is no rule %s", name)
					continue
				}
				failure := ""
				synctest.Test(t, func(t *testing.T) {
					failure = verdict(r, t, b, variants(r, "", "")[0])
					time.Sleep(200 * limit) // what it has left behind ends
				})
				if failure == "" {
					t.Errorf("%s does not notice", name)
					continue
				}
				if !strings.Contains(failure, r.Says[0]) {
					t.Errorf("%s does not say which promise was broken: %s", name, failure)
				}
				t.Logf("%s: %s", name, strings.SplitN(failure, "\n", 2)[0])
			}
		})
	}
}
