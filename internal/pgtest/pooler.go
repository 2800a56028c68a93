package pgtest

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/interlock-go/interlock/internal/loopback"
)

// Pooler starts a PgBouncer in front of the server, which ends with the test, with
// the pool_mode "session", "transaction" or "statement" and a number of server
// connections for each database. It returns the URL of a database with the pooler's
// address. It fails the test if PgBouncer is not installed.
func (s *Server) Pooler(t testing.TB, database, mode string, size int) string {
	t.Helper()
	address, err := s.startPooler(t, mode, size)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = address
	if err := answers(u.String()); err != nil {
		t.Fatalf("pgtest: the pooler does not answer: %v", err)
	}
	return u.String()
}

func (s *Server) startPooler(t testing.TB, mode string, size int) (address string, err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("pgtest: there is no PgBouncer: install it, as Debian's package pgbouncer for example: %w", err)
	}
	ports, err := loopback.New()
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = ports.Close() })
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	settings := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=test\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"auth_type = any\npool_mode = %s\ndefault_pool_size = %d\nmax_client_conn = 500\nunix_socket_dir =\n",
		s.ports.Port(0), ports.Port(0), mode, size)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		return "", err
	}
	if c := s.attr.Credential; c != nil { // it refuses to run as root
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			return "", err
		}
	}
	// A shell's background processes ignore the signal that ends the server,
	// unless they have a handler for it.
	wrapper := s.command("/bin/sh", "-c", strings.Replace(leashed, "-QUIT", "-TERM", 1), program, file)
	wrapper.Dir = dir
	leash, err := wrapper.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := wrapper.Start(); err != nil {
		return "", err
	}
	t.Cleanup(func() {
		_ = leash.Close()
		_ = wrapper.Wait()
	})
	return "127.0.0.1:" + strconv.Itoa(ports.Port(0)), nil
}

// answers waits until a starting server answers.
func answers(url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	db := stdlib.OpenDB(*config)
	defer db.Close()
	for range 600 {
		if err = ping(db); err == nil {
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
	return err
}

func ping(db *sql.DB) error {
	_, err := db.Exec(`SELECT 1`)
	return err
}
