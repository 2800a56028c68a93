package loopback

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAClaimHasPortsThatNoOtherOneHas(t *testing.T) {
	ports := map[int]bool{}
	for range 50 {
		c := newClaim(t)
		for i := range Most {
			require.False(t, ports[c.Port(i)])
			ports[c.Port(i)] = true
			l, err := net.Listen("tcp", c.Addr(i))
			require.NoError(t, err)
			require.NoError(t, l.Close(), "as its server goes down")
		}
		_, err := claim(c.first)
		require.ErrorContains(t, err, "address already in use", "though no server is at its ports")
	}
}

func TestPortsThatAreGivenBackAreClaimedAgain(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	c, err = claim(c.first)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestPortsAreNotClaimedWithAServerAtOneOfThem(t *testing.T) {
	for i := range Most {
		c, err := New()
		require.NoError(t, err)
		require.NoError(t, c.Close())
		server, err := net.Listen("tcp", c.Addr(i))
		require.NoError(t, err)
		_, err = claim(c.first)
		require.ErrorContains(t, err, "address already in use")
		require.NoError(t, server.Close())
		c, err = claim(c.first)
		require.NoError(t, err, "the guard was left")
		require.NoError(t, c.Close())
	}
}

func TestTheKernelGivesNoneOfThePortsAway(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip("the kernel does not tell: ", err)
	}
	first, err := strconv.Atoi(strings.Fields(string(text))[0])
	require.NoError(t, err)
	require.LessOrEqual(t, lowest+size*blocks, first)
}

func newClaim(t *testing.T) *Claim {
	t.Helper()
	c, err := New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
