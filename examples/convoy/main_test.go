package main

import (
	"flag"
	"log"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// asProgram makes the test binary behave as the program.
const asProgram = "CONVOY_AS_PROGRAM"

// servers are those that the tests share. The first test that wants them waits
// for their start.
var servers = sync.OnceValues(func() (*sharedServers, error) {
	serversStarted.Store(true)
	s := &sharedServers{}
	var err error
	if s.postgres, err = pgtest.New("fsync=off"); err != nil {
		return s, err
	}
	s.rabbit, err = rabbittest.New()
	return s, err
})

var serversStarted atomic.Bool

type sharedServers struct {
	postgres *pgtest.Server
	rabbit   *rabbittest.Node
}

func (s *sharedServers) close() {
	if s.postgres != nil {
		s.postgres.Close()
	}
	if s.rabbit != nil {
		_ = s.rabbit.Close()
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	_ = os.Setenv(asProgram, "1") // for the processes that tests start
	_ = flag.Set("rapid.nofailfile", "true")
	flag.Parse()
	if most := flag.Lookup("test.parallel"); most.Value.String() == most.DefValue {
		// Most tests wait for servers and processes.
		_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	code := m.Run()
	if serversStarted.Load() {
		s, _ := servers()
		s.close()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		log.Println(err)
		code = 1
	}
	os.Exit(code)
}
