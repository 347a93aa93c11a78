package etcdlock_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"path"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// asIs passes messages on without decoding them.
type asIs struct{}

func (asIs) Marshal(m any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*m.(*[]byte))}, nil
}

func (asIs) Unmarshal(data mem.BufferSlice, m any) error {
	*m.(*[]byte) = data.Materialize()
	return nil
}

func (asIs) Name() string { return "proto" }

// impostor answers in the place of a server.
type impostor struct {
	addr   string
	server *grpc.ClientConn
	lies   atomic.Pointer[lie] // nil: it passes on what the server says
	told   atomic.Int64        // so many lies
}

// lie makes other messages of one that the server sends as an answer to a method; nil: it is passed on.
type lie func(method string, m []byte) [][]byte

func newImpostor(t *testing.T, of *etcdtest.Server) *impostor {
	t.Helper()
	server, err := grpc.NewClient("passthrough:///"+of.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asIs{})))
	noError(t, err)
	listener := errtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	i := &impostor{addr: listener.Addr().String(), server: server}
	s := grpc.NewServer(grpc.ForceServerCodecV2(asIs{}), grpc.UnknownServiceHandler(i.answer))
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		_ = server.Close()
	})
	return i
}

func (i *impostor) answer(_ any, client grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(client)
	ctx := client.Context()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	server, err := i.server.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, full)
	if err != nil {
		return err
	}
	go func() {
		for {
			var m []byte
			if client.RecvMsg(&m) != nil {
				_ = server.CloseSend()
				return
			}
			_ = server.SendMsg(&m)
		}
	}()
	for {
		var m []byte
		switch err := server.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		all := [][]byte{m}
		if lies := i.lies.Load(); lies != nil {
			if said := (*lies)(path.Base(full), m); said != nil {
				all = said
				i.told.Add(1)
			}
		}
		for _, m := range all {
			if err := client.SendMsg(&m); err != nil {
				return err
			}
		}
	}
}

// message is one of the library's.
type message[T any] interface {
	*T
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// lieOf changes the answers to one method. Without an end, it says the same again and again.
func lieOf[T any, M message[T]](method string, again int, change func(M)) lie {
	return func(of string, m []byte) [][]byte {
		got := M(new(T))
		if of != method || got.Unmarshal(m) != nil {
			return nil
		}
		change(got)
		said, err := got.Marshal()
		if err != nil {
			panic(err)
		}
		return repeat(said, again+1)
	}
}

func repeat(m []byte, n int) (all [][]byte) {
	for range n {
		all = append(all, m)
	}
	return all
}

func txn(change func(*pb.TxnResponse)) lie { return lieOf("Txn", 0, change) }

func watch(again int, change func(*pb.WatchResponse)) lie { return lieOf("Watch", again, change) }

// each changes the answers to questions for keys.
func each(change func(*pb.RangeResponse)) lie {
	return txn(func(r *pb.TxnResponse) {
		for _, of := range r.Responses {
			if keys := of.GetResponseRange(); keys != nil {
				change(keys)
			}
		}
	})
}

// kinds makes all answers of a transaction those to something else.
func kinds(other *pb.ResponseOp) lie {
	return txn(func(r *pb.TxnResponse) {
		for i := range r.Responses {
			r.Responses[i] = other
		}
	})
}

func isEvent(r *pb.WatchResponse) bool { return !r.Created }

var impostors = map[string]lie{
	"nothing":        func(string, []byte) [][]byte { return [][]byte{{}} },
	"garbage":        func(string, []byte) [][]byte { return [][]byte{[]byte(rand.Text())} },
	"the half":       func(_ string, m []byte) [][]byte { return [][]byte{m[:len(m)/2]} },
	"twice":          func(_ string, m []byte) [][]byte { return repeat(m, 2) },
	"without an end": func(_ string, m []byte) [][]byte { return repeat(m, 10_000) },
	"nested":         func(string, []byte) [][]byte { return [][]byte{nested(8 << 20)} },
	"very many elements": func(string, []byte) [][]byte {
		m := bytes.Repeat([]byte{0x12, 0}, 4<<20) // keys and values
		m = append(header(1, len(m)), m...)
		return [][]byte{append(header(3, len(m)), m...)}
	},

	"transaction without a header":     txn(func(r *pb.TxnResponse) { r.Header = nil }),
	"transaction too short":            txn(func(r *pb.TxnResponse) { r.Responses = r.Responses[:len(r.Responses)/2] }),
	"transaction too long":             txn(func(r *pb.TxnResponse) { r.Responses = append(r.Responses, r.Responses...) }),
	"transaction of nothing":           kinds(&pb.ResponseOp{}),
	"transaction of puts":              kinds(&pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}),
	"transaction of transactions":      kinds(&pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{}}}),
	"transaction of no keys":           each(func(r *pb.RangeResponse) { *r = pb.RangeResponse{} }),
	"transaction with another outcome": txn(func(r *pb.TxnResponse) { r.Succeeded = !r.Succeeded }),
	"transaction with other numbers":   txn(func(r *pb.TxnResponse) { r.Header.Revision, r.Header.RaftTerm = -1, 1<<63 }),
	"keys that are negative": each(func(r *pb.RangeResponse) {
		r.Count = -1
		for _, kv := range r.Kvs {
			kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease = -1<<63, -1, -1, -1
		}
	}),
	"keys of great age": each(func(r *pb.RangeResponse) {
		for _, kv := range r.Kvs {
			kv.CreateRevision, kv.ModRevision = 1<<63-1, 1<<63-1
		}
	}),
	"keys that go on":           each(func(r *pb.RangeResponse) { r.More, r.Kvs = true, nil }),
	"keys that go on as before": each(func(r *pb.RangeResponse) { r.More = true }),
	"keys twice":                each(func(r *pb.RangeResponse) { r.Kvs = append(r.Kvs, r.Kvs...) }),
	"keys of others": each(func(r *pb.RangeResponse) {
		for _, kv := range r.Kvs {
			kv.Key = []byte("\x00")
		}
	}),
	"keys without values": each(func(r *pb.RangeResponse) {
		for _, kv := range r.Kvs {
			kv.Value, kv.Key = nil, nil
		}
	}),
	"keys instead of none": each(func(r *pb.RangeResponse) {
		r.Kvs = append(r.Kvs, &mvccpb.KeyValue{Key: []byte("a/{"), Value: []byte("\x00{}"), CreateRevision: 5, ModRevision: 5})
	}),

	"watch without a header": watch(0, func(r *pb.WatchResponse) { r.Header = nil }),
	"watch without keys": watch(0, func(r *pb.WatchResponse) {
		if isEvent(r) {
			r.Events = append(r.Events, &mvccpb.Event{})
		}
	}),
	"watch of events with the beginning": watch(0, func(r *pb.WatchResponse) { r.Events = append(r.Events, &mvccpb.Event{}) }),
	"watch begun again":                  watch(3, func(r *pb.WatchResponse) { r.Created = true }),
	"watch ended again":                  watch(20, func(r *pb.WatchResponse) { r.Created, r.Canceled = false, true }),
	"watch refused":                      watch(3, func(r *pb.WatchResponse) { r.Canceled, r.CancelReason = true, "no" }),
	"watch of no number":                 watch(0, func(r *pb.WatchResponse) { r.WatchId = -1 }),
	"watch of another":                   watch(3, func(r *pb.WatchResponse) { r.WatchId = 1 << 40 }),
	"watch in parts":                     watch(1000, func(r *pb.WatchResponse) { r.Created, r.Fragment = false, true }),
	"watch compacted":                    watch(3, func(r *pb.WatchResponse) { r.Canceled, r.CompactRevision = true, 1 }),
	"watch of the same":                  watch(1000, func(r *pb.WatchResponse) {}),

	"lease of another":           lieOf("LeaseGrant", 0, func(r *pb.LeaseGrantResponse) { r.ID, r.TTL = -5, -5 }),
	"lease that has ended":       lieOf("LeaseTimeToLive", 0, func(r *pb.LeaseTimeToLiveResponse) { r.TTL, r.GrantedTTL = -1, -1 }),
	"lease without an end":       lieOf("LeaseTimeToLive", 0, func(r *pb.LeaseTimeToLiveResponse) { r.TTL, r.GrantedTTL = 1<<63-1, 1<<63-1 }),
	"heartbeat without a header": lieOf("LeaseKeepAlive", 0, func(r *pb.LeaseKeepAliveResponse) { r.Header = nil }),
	"heartbeat for ever":         lieOf("LeaseKeepAlive", 1000, func(r *pb.LeaseKeepAliveResponse) { r.TTL = 1<<63 - 1 }),
	"heartbeat too late":         lieOf("LeaseKeepAlive", 0, func(r *pb.LeaseKeepAliveResponse) { r.TTL = -1 }),

	"members without names": lieOf("MemberList", 0, func(r *pb.MemberListResponse) { r.Header, r.Members = nil, []*pb.Member{{}} }),
	"no members":            lieOf("MemberList", 0, func(r *pb.MemberListResponse) { r.Header, r.Members = nil, nil }),
	"no status":             lieOf("Status", 0, func(r *pb.StatusResponse) { *r = pb.StatusResponse{DbSize: -1} }),
}

// header is what is before a message in a message.
func header(field, size int) []byte {
	h := []byte{byte(field<<3 | 2)}
	for ; size >= 0x80; size >>= 7 {
		h = append(h, byte(size)|0x80)
	}
	return append(h, byte(size))
}

// nested is transactions in each other, of so many bytes.
func nested(size int) []byte {
	m := make([]byte, size)
	at := size
	for at > 24 {
		for _, field := range []int{4, 3} {
			h := header(field, size-at)
			at -= len(h)
			copy(m[at:], h)
		}
	}
	return m[at:]
}

// Promise: whatever a server answers, to any exchange, the program goes on, and its calls end.
func TestNoAnswerEndsTheProgram(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	for name, lies := range impostors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newImpostor(t, s)
			within := "/" + rand.Text()
			url := "etcd://" + i.addr + within
			honest := open(t, "etcd://"+s.Addr+within)
			client, other := open(t, url, interlock.TTL(9*time.Second)), open(t, url, interlock.TTL(9*time.Second))
			ctx := limited(t)
			held := errtest.Must(client.Mutex("held").Acquire(ctx))(t)
			first := errtest.Must(honest.Mutex("later").Acquire(ctx))(t)
			waits := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				lease, err := other.Mutex("later").Acquire(ctx)
				if err == nil {
					err = lease.Release()
				}
				waits <- err
			}()
			i.lies.Store(&lies)
			noError(t, first.Release())
			done := make(chan struct{})
			go func() {
				defer close(done)
				use(t, i, url, client, held)
				<-waits
				_ = other.Close()
				_ = client.Close()
			}()
			select {
			case <-done:
			case <-time.After(3 * bound()):
				t.Fatal("the calls do not end")
			}
			if i.told.Load() == 0 {
				t.Error("no lie was told")
			}
		})
	}
}

// use makes every kind of exchange. What comes of it does not matter.
func use(t *testing.T, i *impostor, url string, client *interlock.Client, held *interlock.Lease) {
	ctx, cancel := context.WithTimeout(t.Context(), bound())
	defer cancel()
	for limit := time.Second; i.told.Load() == 0 && ctx.Err() == nil; limit *= 2 { // a busy machine takes longer
		brief := func(call func(context.Context)) {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			call(ctx)
		}
		brief(func(ctx context.Context) {
			if lease, err := client.Mutex("one").Acquire(ctx); err == nil {
				_ = lease.Release()
			}
		})
		brief(func(ctx context.Context) { _, _ = client.Semaphore("some", 3).Acquire(ctx) })
		brief(func(ctx context.Context) {
			_, _ = interlock.NewValue[string](client, "v").Update(ctx, func(string) (string, error) { return "x", nil })
		})
		brief(func(ctx context.Context) {
			for range client.Admin().Queues(ctx, "") {
				continue
			}
		})
		brief(func(ctx context.Context) { _ = client.Admin().SetPermits(ctx, "some", 2) })
		brief(func(ctx context.Context) { _ = client.Admin().RaiseToken(ctx, "one", 5) })
		brief(func(ctx context.Context) { _ = client.Admin().Check(ctx) })
		brief(func(ctx context.Context) {
			if c, err := interlock.Open(ctx, url); err == nil {
				_ = c.Close()
			}
		})
		brief(func(ctx context.Context) {
			for i.told.Load() == 0 && ctx.Err() == nil { // of a heartbeat
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	_ = held.Release()
}
