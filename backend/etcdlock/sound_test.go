package etcdlock

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Promise: an answer with a key that was not asked for counts as none: what reads it takes for granted that it is of
// that queue.
func TestAnswersAboutOtherKeysAreUnsound(t *testing.T) {
	for _, c := range []struct {
		key, end, got string
		sound         bool
	}{
		{"q/seat", "", "q/seat", true},
		{"q/seat", "", "q/seat/below", false},
		{"q/seat", "", "", false},
		{"q/", "q0", "q/seat", true},
		{"q/", "q0", "q/", true},
		{"q/", "q0", "q0", false},
		{"q/", "q0", "p/seat", false},
		{"q", "\x00", "r", true},
		{"q", "\x00", "p", false},
	} {
		asked := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(c.key), RangeEnd: []byte(c.end)}}}}}
		got := &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{
			ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte(c.got)}}},
		}}}}
		if answers(asked, got) != c.sound {
			t.Errorf("%q as an answer about %q to %q counts: %t", c.got, c.key, c.end, !c.sound)
		}
	}
}
