// Package loopback claims ports of the loopback interface, for test servers that
// are killed and restarted at the same port.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Most is the number of ports of a claim.
const Most = 3

// Claims are blocks of adjacent ports, below the ephemeral ones of the kernel, so
// that no connection gets one while its server is down. All blocks have the same
// size, or the guard of one could be a port of another.
const (
	lowest = 16_384
	blocks = 4096
	size   = Most + 1 // with the guard
)

// Claim has three adjacent ports that no other claim has, in this program or
// another, until it is closed. They are free when it is made.
type Claim struct {
	first int
	guard net.Listener // at the port after them
}

// New claims ports. It fails if it finds no free ones.
func New() (c *Claim, err error) {
	for range 100 {
		if c, err = claim(lowest + size*rand.IntN(blocks)); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("loopback: no free ports: %w", err)
}

// claim claims the block that begins with a port.
func claim(first int) (*Claim, error) {
	c := &Claim{first: first}
	var err error
	if c.guard, err = net.Listen("tcp", c.Addr(Most)); err != nil {
		return nil, err
	}
	for i := range Most {
		l, err := net.Listen("tcp", c.Addr(i))
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Port returns the port i, from 0 to 2.
func (c *Claim) Port(i int) int { return c.first + i }

// Addr returns the address of the port i, from 0 to 2, as in "127.0.0.1:16384".
func (c *Claim) Addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", c.Port(i)) }

// Close releases the ports. Their servers must have ended.
func (c *Claim) Close() error { return c.guard.Close() }
