package etcdlock

import (
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

// Explain says what an error means for the author of the URL.
func (s *store) Explain(err error) error { return explain(err) }

func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return driver.Permanent(fmt.Errorf("etcd: the user lacks a right: %w (%s)", said{err}, doctor.Hint))
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return driver.Permanent(fmt.Errorf("etcd: the cluster wants a user, which the URL has not: %w", said{err}))
	case refused(err):
		return driver.Permanent(fmt.Errorf("etcd: user or password is wrong: %w", said{err}))
	}
	for _, moment := range []error{rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrNotLeader, rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToLeaderFail,
		rpctypes.ErrLeaseNotFound} { // the last one of a session that has ended before it began
		if errors.Is(err, moment) {
			return driver.Passing(fmt.Errorf("etcd: %w", said{err}))
		}
	}
	if text := aboutTLS(err); text != "" {
		return fmt.Errorf("etcd: %w (%s)", said{err}, text)
	}
	return fmt.Errorf("etcd: %w", said{err})
}

// aboutTLS says what may be behind a connection that ends before it has begun; "" of another error. The text
// is all that gRPC hands on.
func aboutTLS(err error) string {
	text := err.Error()
	switch certificate := tlsoption.Hint(err); {
	case certificate != "":
		return certificate
	case hasEnded(err) && strings.Contains(text, "authentication handshake failed"), strings.Contains(text, "does not look like a TLS handshake"):
		return "if the port is one without TLS, write etcd://"
	}
	return ""
}

// tooLong reports whether an answer was given up since it is longer than maxAnswer. What was asked for may have
// taken effect.
func tooLong(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "received message")
}

// fewer asks about n things. If the answer is too long, it asks about half as many, down to one.
func fewer(n int64, ask func(n int64) error) error {
	err := ask(n)
	for ; tooLong(err) && n > 1; err = ask(n) {
		n /= 2
	}
	return err
}

// illegible is of a queue that no answer has room for.
func illegible(queue string, err error) error {
	return driver.Permanent(fmt.Errorf("etcd: what is kept of %q cannot be read: %w", queue, said{err}))
}

// hasEnded reports whether the server has ended the connection.
func hasEnded(err error) bool {
	text := err.Error()
	return strings.Contains(text, "EOF") || strings.Contains(text, "connection reset") || strings.Contains(text, "broken pipe")
}

// said is an error of gRPC without what is around its message.
type said struct{ error }

func (s said) Unwrap() error { return s.error }

func (s said) Error() string {
	if st, ok := status.FromError(s.error); ok {
		return st.Message()
	}
	return s.error.Error()
}
