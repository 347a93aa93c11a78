package conn

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a right that is missing is known by what servers of all versions say of it, and no call is repeated
// because of it.
func TestAMissingRightIsKnownByWhatServersSay(t *testing.T) {
	t.Parallel()
	for server, text := range map[string]string{
		"a command":                      "NOPERM this user has no permissions to run the 'ping' command",
		"in a script, Redis 7.0":         "ERR The user executing the script can't run this command or subcommand script: 1234, on @user_script:9.",
		"in a script, Valkey, Redis 7.2": "ERR ACL failure in script: User app has no permissions to run the 'zadd' command script: 1234, on @user_script:9.",
		"a key in a script, Valkey":      "ERR ACL failure in script: User app has no permissions to access the 'q' key script: 1234, on @user_script:9.",
		"a channel in a script, Valkey":  "ERR ACL failure in script: User app has no permissions to access the 'c' channel script: 1234, on @user_script:9.",
	} {
		err := errors.New(text)
		if !Forbidden(err) || !Refused(err) || !driver.IsPermanent(Explain(err)) {
			t.Errorf("%s: a missing right is not known: %v", server, Explain(err))
		}
	}
}
