package bus_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory_ReachesTheSubscribersOfTheTopicAlone(t *testing.T) {
	t.Parallel()
	b := bus.NewMemory()
	got := map[string][]string{}
	subscribe := func(who, topic string) func() {
		return b.Subscribe(topic, func(p gateway.Push) { got[who] = append(got[who], p.Type) })
	}
	cancelA := subscribe("a", "thread:1")
	subscribe("b", "thread:1")
	subscribe("c", "thread:2")
	b.Publish("thread:1", gateway.Push{Type: "one"})
	cancelA()
	cancelA()
	b.Publish("thread:1", gateway.Push{Type: "two"})
	b.Publish("thread:3", gateway.Push{Type: "nobody"})
	for who, want := range map[string][]string{"a": {"one"}, "b": {"one", "two"}, "c": nil} {
		if !slices.Equal(got[who], want) {
			t.Errorf("%s got %q, want %q", who, got[who], want)
		}
	}
}

func TestMemory_CancelWithinAHandler(t *testing.T) {
	t.Parallel()
	b := bus.NewMemory()
	calls := 0
	var cancelSecond func()
	var cancelFirst func()
	cancelFirst = b.Subscribe("t", func(gateway.Push) {
		cancelFirst()
		cancelSecond()
	})
	cancelSecond = b.Subscribe("t", func(gateway.Push) { calls++ })
	b.Publish("t", gateway.Push{})
	b.Publish("t", gateway.Push{})
	if calls != 0 {
		t.Errorf("a cancelled handler was called %d times", calls)
	}
}

func TestMemory_EverySubscriberSeesOneOrder(t *testing.T) {
	t.Parallel()
	b := bus.NewMemory()
	const publishers, pushes, subscribers = 4, 250, 3
	seen := make([][]string, subscribers)
	for i := range subscribers {
		b.Subscribe("t", func(p gateway.Push) { seen[i] = append(seen[i], p.TurnID) })
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range pushes {
				b.Publish("t", gateway.Push{TurnID: fmt.Sprintf("%d/%03d", p, i)})
			}
		})
		wg.Go(func() { // subscribers that come and go
			for range pushes {
				b.Subscribe("t", func(gateway.Push) {})()
			}
		})
	}
	wg.Wait()
	for i := range subscribers {
		if len(seen[i]) != publishers*pushes || !slices.Equal(seen[i], seen[0]) {
			t.Fatalf("subscriber %d saw %d pushes, in the order of the first: %v", i, len(seen[i]), slices.Equal(seen[i], seen[0]))
		}
	}
	for p := range publishers {
		prefix := fmt.Sprintf("%d/", p)
		own := slices.DeleteFunc(slices.Clone(seen[0]), func(s string) bool { return s[:2] != prefix })
		if !slices.IsSorted(own) {
			t.Errorf("pushes of publisher %d are out of order", p)
		}
	}
}

func BenchmarkMemory_Publish(b *testing.B) {
	m := bus.NewMemory()
	for range 100 {
		m.Subscribe("t", func(gateway.Push) {})
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Publish("t", gateway.Push{Type: "turn.delta"})
	}
}
