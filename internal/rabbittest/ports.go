package rabbittest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// claimPorts finds three neighbouring free ports, below those that the kernel
// gives away: nobody gets one while the node is down. The port after them is
// held for as long as they are used, which keeps other tests off.
func claimPorts() (claim net.Listener, first int, err error) {
	for range 100 {
		first = 16_384 + 4*rand.IntN(4096)
		if claim, err = listen(first + 3); err != nil {
			continue
		}
		if err = errors.Join(free(first), free(first+1), free(first+2)); err == nil {
			return claim, first, nil
		}
		_ = claim.Close()
	}
	return nil, 0, fmt.Errorf("rabbittest: no free ports: %w", err)
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

func free(port int) error {
	l, err := listen(port)
	if err != nil {
		return err
	}
	return l.Close()
}
