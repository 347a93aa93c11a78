// Package clientgolock has the leader election of Kubernetes (k8s.io/client-go/tools/leaderelection) keep its record on
// a backend, so that programs which are written for it elect a leader without a cluster, or beside one:
//
//	import "k8s.io/client-go/tools/leaderelection"
//
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock:            clientgolock.New(client, "controller"),
//		LeaseDuration:   15 * time.Second,
//		RenewDeadline:   10 * time.Second,
//		RetryPeriod:     2 * time.Second,
//		ReleaseOnCancel: true,
//		Callbacks: leaderelection.LeaderCallbacks{
//			OnStartedLeading: func(ctx context.Context) { _ = work(ctx) }, // ctx ends with the leadership
//			OnStoppedLeading: func() { os.Exit(1) },                       // the work may go on
//		},
//	})
//
// controller-runtime takes it as Options.LeaderElectionResourceLockInterface of a manager.
//
// Code of your own takes [interlock.Client.Election] instead. There the next process leads when the function of the
// former one has returned, and the leader has a token.
package clientgolock

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/interlock-go/interlock"
)

// Lock is one candidate's view of the record, for one LeaderElector.
//
// client-go decides who leads: by its own clock and its own durations. The backend only sees to it that each change
// replaces the record that the candidate has seen last. The [interlock.TTL] of the client has no effect.
type Lock struct {
	record   *interlock.Value[resourcelock.LeaderElectionRecord]
	name     string
	identity string
	version  atomic.Uint64 // of the record that was read or written last; 0 if there is none
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns a Lock with the record in the value of this name ([interlock.NewValue]). A name that is not one of
// Interlock's is an error of each call, which client-go logs, and tries again.
//
// Each Lock has an identity of its own, since client-go takes equal identities for one leader.
func New(c *interlock.Client, name string) *Lock {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &Lock{
		record: interlock.NewValue[resourcelock.LeaderElectionRecord](c, name), name: name,
		identity: fmt.Sprintf("%s_%d_%s", host, os.Getpid(), rand.Text()),
	}
}

var resource = schema.GroupResource{Resource: "values"}

// Get reads the record. The bytes are its JSON with the version of the value: client-go compares them to see that the
// leader renews, and the times in the record are of whole seconds. Without a record, IsNotFound.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	got, err := l.record.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !got.Exists {
		return nil, nil, kerrors.NewNotFound(resource, l.name)
	}
	raw, err := json.Marshal(struct {
		resourcelock.LeaderElectionRecord
		Version uint64 `json:"version"`
	}{got.Value, got.Version})
	if err != nil {
		return nil, nil, err
	}
	l.version.Store(got.Version)
	return &got.Value, raw, nil
}

// Create makes the record. IsAlreadyExists if another candidate was faster.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	version, err := l.record.Set(ctx, r, 0)
	if errors.Is(err, interlock.ErrConflict) {
		return kerrors.NewAlreadyExists(resource, l.name)
	}
	return l.set(version, err)
}

// Update replaces the record that this Lock has read or written last. IsConflict if it is another by now. Another
// error, such as one of the context, leaves open whether the record was replaced; an Update is IsConflict then, until
// Get.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	seen := l.version.Load()
	if seen == 0 {
		return fmt.Errorf("update %q: no record was read or created before", l.name)
	}
	version, err := l.record.Set(ctx, r, seen)
	if errors.Is(err, interlock.ErrConflict) {
		return kerrors.NewConflict(resource, l.name, err)
	}
	return l.set(version, err)
}

func (l *Lock) set(version uint64, err error) error {
	if err == nil {
		l.version.Store(version)
	}
	return err
}

// RecordEvent does nothing: the callbacks of client-go tell the same.
func (l *Lock) RecordEvent(string) {}

// Identity is the host, the number of the process and a random part.
func (l *Lock) Identity() string { return l.identity }

// Describe is the name of the value.
func (l *Lock) Describe() string { return "interlock value " + l.name }
