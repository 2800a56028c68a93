package ordering

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
)

// users is a handler that notes for whom each event was offered, by its context.
type users struct {
	mu   sync.Mutex
	seen map[string]string
}

type userKey struct{}

func asUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

func (u *users) handle(ctx context.Context, j Job[*Event]) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen == nil {
		u.seen = map[string]string{}
	}
	user, _ := ctx.Value(userKey{}).(string)
	u.seen[j.Event.ID] += user + ";"
	return nil
}

func (u *users) all() map[string]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.seen)
}

// TestValuesOfAnEarlierEvent: what waits for a missing event runs when somebody else offers
// that, and still for the user that has offered it, whose request is over.
func TestValuesOfAnEarlierEvent(t *testing.T) {
	var u users
	story(t, Config[*Event]{Handler: u.handle}, func(t *testing.T, r *rig) {
		r.offer(ev("first", "a=1")) // the stream is in memory from now on
		late, end := context.WithCancel(asUser(t.Context(), "ann"))
		require.NoError(t, r.seq.Offer(late, ev("third", "a=3"), r.done))
		end()
		_, err := r.seq.OfferBatch(asUser(t.Context(), "bob"), []*Event{ev("fourth", "a=4"), ev("second", "a=2"), ev("fifth", "a=5")}, r.done)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, map[string]string{"first": ";", "second": "bob;", "third": "ann;", "fourth": "bob;", "fifth": "bob;"}, u.all())
	})
}

// TestValuesOfCommands: they wait until the streams of an event before them have been
// loaded, and are then submitted in whichever offer comes next.
func TestValuesOfCommands(t *testing.T) {
	var u users
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &slowToAcquire{Store: NewMemory()})
		r.start(Config[*Event]{Handler: u.handle})
		require.NoError(t, r.seq.Offer(asUser(t.Context(), "eve"), ev("first", "a=1"), r.done))
		want := map[string]string{"first": "eve;"}
		for _, user := range []string{"ann", "bob", "cid"} {
			require.NoError(t, r.seq.Offer(asUser(t.Context(), user), command("of "+user, "1"), r.done))
			want["of "+user] = user + ";"
		}
		require.NoError(t, r.seq.Offer(t.Context(), command("of nobody", "1"), r.done))
		want["of nobody"] = ";"
		require.Empty(t, u.all())
		r.sleep(time.Minute)
		assert.Equal(t, want, u.all())
		r.stop()
	})
}

// TestValuesOfWhatIsHeld: they are gone with the process, or the request, so an event that
// the store has held has nobody's.
func TestValuesOfWhatIsHeld(t *testing.T) {
	var u users
	fails := true
	handler := func(ctx context.Context, j Job[*Event]) error {
		if j.Event.ID == "first" && fails {
			return errors.New("no money")
		}
		return u.handle(ctx, j)
	}
	story(t, Config[*Event]{Handler: handler}, func(t *testing.T, r *rig) {
		require.NoError(t, r.seq.Offer(asUser(t.Context(), "ann"), ev("first", "a=1"), r.done))
		synctest.Wait()
		require.NoError(t, r.seq.Offer(asUser(t.Context(), "bob"), ev("second", "a=2"), r.done))
		synctest.Wait()
		fails = false
		require.NoError(t, r.seq.Resume(asUser(t.Context(), "operator"), ev("first", "a=1").Positions[0].Stream))
		synctest.Wait()
		require.NoError(t, r.seq.Offer(asUser(t.Context(), "cid"), ev("third", "a=3"), r.done))
		synctest.Wait()
		assert.Equal(t, map[string]string{"first": ";", "second": ";", "third": "cid;"}, u.all())
	})
}

// slowToAcquire takes a second to acquire streams.
type slowToAcquire struct{ Store }

func (s *slowToAcquire) Begin(ctx context.Context, c Consumer) (Term, error) {
	term, err := s.Store.Begin(ctx, c)
	return &slowAcquisition{term}, err
}

type slowAcquisition struct{ Term }

func (s *slowAcquisition) Acquire(ctx context.Context, keys []lockkeys.Key) ([]StreamState, error) {
	time.Sleep(time.Second)
	return s.Term.Acquire(ctx, keys)
}
