package httplock

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Server is the backend: rows in memory, behind one mutex. When it stops, it forgets them, which the
// backend of a Store must not.
type Server struct {
	mu   sync.Mutex
	rows rows // guarded by mu
}

// NewServer makes a server without rows.
func NewServer() *Server {
	return &Server{rows: rows{
		queues: map[string]*queue{}, tickets: map[string]*ticket{}, tombstones: map[string]time.Time{}, cells: map[string]driver.Cell{},
		swaps: map[string]swapped{}, followers: map[topic][]string{}, mailboxes: map[string]chan exchange.Event{},
	}}
}

// ServeHTTP serves an exchange: the path is the name of a method of rows, and the body has its
// arguments.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if mailbox, ok := strings.CutPrefix(r.URL.Path, "/events/"); ok {
		s.events(w, r, mailbox)
		return
	}
	var args []json.RawMessage
	err := json.NewDecoder(r.Body).Decode(&args)
	method := reflect.ValueOf(&s.rows).MethodByName(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || !method.IsValid() || method.Type().NumIn() != len(args) {
		http.NotFound(w, r)
		return
	}
	in := make([]reflect.Value, len(args))
	for i, arg := range args {
		value := reflect.New(method.Type().In(i))
		if err := json.Unmarshal(arg, value.Interface()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in[i] = value.Elem()
	}
	out := s.call(method, in)
	if err, _ := out[len(out)-1].Interface().(error); err != nil {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(err.Error()))
		return
	}
	_ = json.NewEncoder(w).Encode(out[0].Interface())
}

// call makes an exchange, which takes effect as a whole and alone since the mutex is locked.
func (s *Server) call(exchange reflect.Value, args []reflect.Value) []reflect.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.now = time.Now()
	return exchange.Call(args)
}

// events sends the events of a mailbox until the client goes. Its header says that no later event
// is missed.
func (s *Server) events(w http.ResponseWriter, r *http.Request, mailbox string) {
	events := make(chan exchange.Event, 1000)
	s.mu.Lock()
	s.rows.mailboxes[mailbox] = events
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.rows.mailboxes[mailbox] == events {
			delete(s.rows.mailboxes, mailbox)
		}
	}()
	out, flush := json.NewEncoder(w), http.NewResponseController(w).Flush
	for flush() == nil {
		select {
		case ev := <-events:
			_ = out.Encode(ev)
		case <-r.Context().Done():
			return
		}
	}
}
