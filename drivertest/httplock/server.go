package httplock

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// Server is the backend: rows in memory, behind one mutex. When it stops, it forgets them, which the
// backend of a Store must not.
type Server struct {
	mu        sync.Mutex
	tables    tables   // guarded by mu
	mailboxes sync.Map // of chan exchange.Event, by name: of the clients that listen
}

// tables are the rows by their names. A method is an exchange with several of them.
type tables struct {
	queues map[string]*rows.Queue
	cells  map[string]*rows.Cell
	begun  []*rows.Exchange // with a row, in this call
}

// NewServer makes a server without rows.
func NewServer() *Server {
	return &Server{tables: tables{queues: map[string]*rows.Queue{}, cells: map[string]*rows.Cell{}}}
}

// begin begins an exchange with a row, which is made if it is missing.
func begin[R rows.Row](t *tables, table map[string]R, name string, missing R) R {
	if _, ok := table[name]; !ok {
		table[name] = missing
	}
	t.begun = append(t.begun, rows.Begin(table[name], time.Now()))
	return table[name]
}

func (t *tables) queue(name string) *rows.Queue {
	return begin(t, t.queues, name, &rows.Queue{Name: name})
}

func (t *tables) Settle(queue string) { t.queue(queue) }

func (t *tables) End(tickets []exchange.Leave) {
	for _, l := range tickets {
		_ = t.queue(l.Queue).Leave(l) // or it does not stand
	}
}

// Look is Renew if some of the tickets are to be extended.
func (t *tables) Look(s exchange.Session, refs []exchange.Ref, extend int) []exchange.Status {
	all := make([]exchange.Status, len(refs))
	for i, ref := range refs {
		all[i] = t.queue(ref.Queue).Look(s, ref.ID, i < extend)
	}
	return all
}

func (t *tables) Clock() int64 { return time.Now().UnixMicro() }

func (t *tables) List(prefix, from string) (all []exchange.Snapshot) {
	stands := func(name string) bool { return len(t.queue(name).Tickets) > 0 }
	for _, name := range rows.Page(t.queues, prefix, from, stands) {
		all = append(all, t.queues[name].Read(exchange.Follower{}))
	}
	return all
}

func (t *tables) Cells(prefix, from string) []string {
	return rows.Page(t.cells, prefix, from, func(name string) bool { return t.cells[name].Exists })
}

func (t *tables) Tidy() {
	maps.DeleteFunc(t.queues, func(name string, _ *rows.Queue) bool { return t.queue(name).Empty() })
}

// ServeHTTP serves an exchange: the path is the name of a method of tables, or of the row that the
// query names, and the body has its arguments.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Has("mailbox") {
		s.listen(w, r, query.Get("mailbox"))
		return
	}
	var args []json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := s.exchange(query.Get("queue"), query.Get("cell"), r.URL.Path[1:], args)
	_ = json.NewEncoder(w).Encode(answer)
}

// exchange makes an exchange, which takes effect as a whole and alone since the mutex is locked.
func (s *Server) exchange(queue, cell, method string, args []json.RawMessage) answer[any] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables.begun = nil
	on := any(&s.tables)
	if queue != "" {
		on = s.tables.queue(queue)
	} else if cell != "" {
		on = begin(&s.tables, s.tables.cells, cell, &rows.Cell{Name: cell})
	}
	a := call(reflect.ValueOf(on).MethodByName(method), args)
	for _, x := range s.tables.begun {
		for _, ev := range x.Events {
			if events, listens := s.mailboxes.Load(ev.Mailbox); listens {
				select {
				case events.(chan exchange.Event) <- ev.Event:
				default: // too slow: the event is lost
				}
			}
		}
	}
	return a
}

func call(method reflect.Value, args []json.RawMessage) (a answer[any]) {
	if !method.IsValid() || method.Type().NumIn() != len(args) {
		return answer[any]{Error: "there is no such exchange"}
	}
	in := make([]reflect.Value, len(args))
	for i, arg := range args {
		in[i] = reflect.New(method.Type().In(i)).Elem()
		if err := json.Unmarshal(arg, in[i].Addr().Interface()); err != nil {
			return answer[any]{Error: err.Error()}
		}
	}
	for _, out := range method.Call(in) {
		switch out := out.Interface().(type) {
		case nil:
		case error:
			a.Error = out.Error()
		default:
			a.Result = out
		}
	}
	return a
}

// signOfLife is how often a client that listens hears something: null, if there is no event.
const signOfLife = time.Second / 4

// listen sends the events of a mailbox until the client goes. Its header says that no later event is
// missed.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, mailbox string) {
	events := make(chan exchange.Event, 1000)
	s.mailboxes.Store(mailbox, events)
	defer s.mailboxes.CompareAndDelete(mailbox, events)
	out, flush := json.NewEncoder(w), http.NewResponseController(w).Flush
	alive := time.NewTicker(signOfLife)
	defer alive.Stop()
	for flush() == nil {
		select {
		case ev := <-events:
			_ = out.Encode(ev)
		case <-alive.C:
			_ = out.Encode(nil)
		case <-r.Context().Done():
			return
		}
	}
}
