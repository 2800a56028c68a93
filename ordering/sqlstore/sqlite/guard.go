package sqlite

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// harmless lists pragmas with an argument that only read, or apply to the
// transaction alone.
var harmless = []string{
	"table_info", "table_xinfo", "table_list", "index_info", "index_list", "index_xinfo", "foreign_key_list",
	"foreign_key_check", "integrity_check", "quick_check", "defer_foreign_keys",
}

// Guard makes a connection of the driver modernc.org/sqlite ask a guard: it is for
// [sqlstore.SQLite].
func Guard(conn driver.Conn, guard sqlstore.Guard) error {
	c, ok := conn.(interface {
		sqlite.AuthorizerRegisterer
		sqlite.HookRegisterer
	})
	if !ok {
		return fmt.Errorf("sqlite: no connection of modernc.org/sqlite: %T", conn)
	}
	c.RegisterRollbackHook(guard.RolledBack)
	c.RegisterCommitHook(func() int32 {
		if guard.MayCommit() {
			return 0
		}
		return 1
	})
	return c.RegisterAuthorizer(func(action sqlite.AuthorizerActionCode, first, second, _, _ string) sqlite.AuthorizerReturnCode {
		may := true
		switch action {
		case sqlite.AuthTransaction:
			may = guard.MayControl(first, "")
		case sqlite.AuthSavepoint:
			may = guard.MayControl(first, second)
		case sqlite.AuthPragma:
			may = second == "" || slices.Contains(harmless, strings.ToLower(first)) || guard.MaySet("PRAGMA "+first)
		case sqlite.AuthAttach:
			may = guard.MaySet("ATTACH")
		case sqlite.AuthDetach:
			may = guard.MaySet("DETACH")
		}
		if may {
			return sqlite.AuthorizerOK
		}
		return sqlite.AuthorizerDeny
	})
}
