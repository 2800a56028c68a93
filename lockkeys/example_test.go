package lockkeys_test

import (
	"fmt"
	"sync"

	"github.com/interlock-go/interlock/lockkeys"
)

// accounts is the smallest use of a set: one mutex guards it, and a message
// that has to wait does so on a channel that is closed when its claim is
// granted.
type accounts struct {
	mu  sync.Mutex
	set lockkeys.Set[chan struct{}]
}

func (a *accounts) handle(claim *lockkeys.Claim, handler func()) {
	place := lockkeys.Place[chan struct{}]{Owner: make(chan struct{})}
	a.mu.Lock()
	granted := a.set.Add(&place, claim)
	a.mu.Unlock()
	if !granted {
		<-place.Owner
	}

	handler()

	a.mu.Lock()
	defer a.mu.Unlock()
	for _, next := range a.set.Remove(&place, nil) {
		close(next.Owner)
	}
}

// Transfers between three accounts, some in opposite directions, without any
// lock of their own.
func Example() {
	var bank accounts
	balance := map[string]*int{"1": new(int), "2": new(int), "3": new(int)}

	var wg sync.WaitGroup
	for i, pair := range [][2]string{{"1", "2"}, {"2", "1"}, {"2", "3"}, {"3", "1"}, {"1", "3"}} {
		from, to := pair[0], pair[1]
		var claim lockkeys.Claim
		claim.Exclusive(lockkeys.Must("account", from), lockkeys.Must("account", to))
		wg.Go(func() {
			bank.handle(&claim, func() {
				*balance[from] -= 10 * i
				*balance[to] += 10 * i
			})
		})
	}
	wg.Wait()

	all := lockkeys.NewClaim(lockkeys.Request{Key: lockkeys.Must("account"), Mode: lockkeys.Shared})
	bank.handle(all, func() { fmt.Println(*balance["1"], *balance["2"], *balance["3"]) })
	// Output: 0 -30 30
}

func ExampleParse() {
	key, err := lockkeys.Parse("client/42/account/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	client := key.Ancestor(2)
	fmt.Println(client, client.Contains(key), key.Depth())

	odd := lockkeys.Must("report", "2024/25")
	fmt.Println(odd, odd.Depth())

	_, err = lockkeys.Parse("client//account")
	fmt.Println(err)
	// Output:
	// client/42 true 4
	// report/2024%2F25 2
	// lockkeys: bad key "client//account" at segment 1: empty segment: remove it, or write "/" for the root key
}

func ExampleConflicts() {
	client := lockkeys.Request{Key: lockkeys.MustParse("client/4")}
	account := lockkeys.Request{Key: lockkeys.MustParse("client/4/account/7")}
	other := lockkeys.Request{Key: lockkeys.MustParse("client/42")}
	fmt.Println("a client and its account:", lockkeys.Conflicts(client, account))
	fmt.Println("two clients:", lockkeys.Conflicts(client, other))

	client.Mode, account.Mode = lockkeys.Shared, lockkeys.Shared
	fmt.Println("both only read:", lockkeys.Conflicts(client, account))
	// Output:
	// a client and its account: true
	// two clients: false
	// both only read: false
}

func ExampleClaim() {
	var claim lockkeys.Claim
	claim.Exclusive(lockkeys.Must("client", "42", "account", "7"), lockkeys.Must("client", "42"))
	claim.Shared(lockkeys.Must("rates"), lockkeys.Must("rates", "EUR"))
	for _, request := range claim.Requests() {
		fmt.Println(request)
	}
	// Output:
	// client/42
	// rates (shared)
}

func ExampleSet() {
	var set lockkeys.Set[string]
	claim := func(text string) *lockkeys.Claim {
		return lockkeys.NewClaim(lockkeys.Request{Key: lockkeys.MustParse(text)})
	}
	deposit := lockkeys.Place[string]{Owner: "deposit"}
	closing := lockkeys.Place[string]{Owner: "close client"}
	withdraw := lockkeys.Place[string]{Owner: "withdraw"}

	fmt.Println("deposit granted:", set.Add(&deposit, claim("client/42/account/7")))
	fmt.Println("close client granted:", set.Add(&closing, claim("client/42")))
	fmt.Println("withdraw granted:", set.Add(&withdraw, claim("client/42/account/8")))

	request, by, _ := set.Blocker(&withdraw)
	fmt.Printf("withdraw waits for %v of %s\n", request, by.Owner)

	for _, place := range set.Remove(&deposit, nil) {
		fmt.Println("after deposit:", place.Owner)
	}
	for _, place := range set.Remove(&closing, nil) {
		fmt.Println("after close client:", place.Owner)
	}
	// Output:
	// deposit granted: true
	// close client granted: false
	// withdraw granted: false
	// withdraw waits for client/42 of close client
	// after deposit: close client
	// after close client: withdraw
}
