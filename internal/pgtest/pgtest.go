// Package pgtest starts PostgreSQL servers for tests: real ones, on a free port,
// with their data in a temporary folder.
package pgtest

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/interlock-go/interlock/internal/loopback"
)

// Server is a PostgreSQL server.
type Server struct {
	bin, dir  string
	settings  []string
	ports     *loopback.Claim // of which it needs the first
	attr      *syscall.SysProcAttr
	wrapper   *exec.Cmd
	leash     io.WriteCloser
	databases atomic.Int64
}

// Start starts a server that ends with the test, with settings such as
// "fsync=off" for tests in which no power is lost. It fails the test if
// PostgreSQL is not installed.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := New(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// New starts a server; Close ends it. It is for a TestMain.
func New(settings ...string) (_ *Server, err error) {
	s := &Server{attr: &syscall.SysProcAttr{}}
	for _, setting := range append(settings, "max_connections=200") {
		s.settings = append(s.settings, "-c", setting)
	}
	if s.bin, err = find(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "pgtest"); err != nil {
		return nil, err
	}
	if s.ports, err = loopback.New(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	if err = s.init(); err == nil {
		err = s.Restart()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// find returns the folder of the newest server's programs.
func find() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("pgtest: there is no PostgreSQL server: install it, as Debian's package postgresql for example")
	}
	return filepath.Dir(path), nil
}

// version returns 15 for /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// init creates the data folder.
func (s *Server) init() error {
	if os.Getuid() == 0 { // the server refuses to run as root
		if err := s.runAs("postgres", "nobody"); err != nil {
			return err
		}
	}
	text, err := s.command(filepath.Join(s.bin, "initdb"), "-D", s.dir+"/data", "-U", "test", "-A", "trust", "-E", "UTF8").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgtest: initdb: %w: %s", err, text)
	}
	return nil
}

// runAs runs the server as the first of these users that exists.
func (s *Server) runAs(names ...string) (err error) {
	for _, name := range names {
		u, lookup := user.Lookup(name)
		if lookup != nil {
			err = errors.Join(err, lookup)
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return os.Chown(s.dir, uid, gid)
	}
	return err
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.SysProcAttr = s.dir, s.attr
	return c
}

// leashed starts a server that is ended when the pipe to its shell breaks, so
// also when the tests are killed.
const leashed = `exec 3<&0
"$0" "$@" </dev/null >log 2>&1 3<&- & pid=$!
(cat <&3; kill -QUIT $pid) >/dev/null 2>&1 &
wait $pid; kill $!`

// Restart starts the server again after Kill, with the same data and port. It
// returns when the server accepts connections.
func (s *Server) Restart() (err error) {
	s.wrapper = s.command("/bin/sh", append([]string{"-c", leashed, filepath.Join(s.bin, "postgres"), "-D", s.dir + "/data", "-k", "",
		"-h", "127.0.0.1", "-p", strconv.Itoa(s.ports.Port(0))}, s.settings...)...)
	if s.leash, err = s.wrapper.StdinPipe(); err != nil {
		return err
	}
	if err := s.wrapper.Start(); err != nil {
		return err
	}
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	for range 600 {
		if err = db.Ping(); err == nil {
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(s.dir + "/log")
	return fmt.Errorf("pgtest: the server does not answer: %w: %s", err, text)
}

// Kill ends the server at once with kill -9, as a crash does.
func (s *Server) Kill() {
	text, _ := os.ReadFile(s.dir + "/data/postmaster.pid")
	line, _, _ := strings.Cut(string(text), "\n")
	var pids []int
	if pid, err := strconv.Atoi(line); err == nil {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
		for _, child := range strings.Fields(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				pids = append(pids, pid)
			}
		}
	}
	_ = s.leash.Close()
	_ = s.wrapper.Wait()
	for _, pid := range pids { // until they have ended they hold the shared memory
		for runs(pid) {
			<-time.After(time.Millisecond)
		}
	}
}

// runs reports whether a process has not ended; a zombie has.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// Close ends the server and removes its data.
func (s *Server) Close() {
	if s.leash != nil {
		_ = s.leash.Close() // an immediate shutdown
		_ = s.wrapper.Wait()
	}
	_ = os.RemoveAll(s.dir)
	_ = s.ports.Close()
}

func (s *Server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("test"), Host: s.ports.Addr(0), Path: "/" + database,
		RawQuery: "sslmode=disable"}
	return u.String()
}

// Database creates a database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	url, err := s.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// NewDatabase is Database outside of tests.
func (s *Server) NewDatabase() (url string, err error) {
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	name := fmt.Sprintf("test_%d", s.databases.Add(1))
	_, err = db.Exec(`CREATE DATABASE ` + name)
	return s.url(name), err
}
