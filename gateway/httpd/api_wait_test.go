package httpd_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/gateway/httpd"
)

// listening is a bus that tells of each subscription of a thread.
type listening struct {
	gateway.Bus
	began chan string
}

func (l listening) Subscribe(topic string, handle func(gateway.Push)) (cancel func()) {
	if strings.HasPrefix(topic, gateway.ThreadTopic("")) {
		defer func() { l.began <- topic }()
	}
	return l.Bus.Subscribe(topic, handle)
}

// newWaiting is a program on a server that tells when it begins to wait.
func newWaiting(t *testing.T) (*program, chan string) {
	t.Helper()
	began := make(chan string, 8)
	p := newProgram(t, options{api: func(c *httpd.APIConfig) { c.Bus = listening{c.Bus, began} }})
	return p, began
}

func TestAPI_WaitForTheEndOfATurn(t *testing.T) {
	t.Parallel()
	p, began := newWaiting(t)
	started := p.say("", "hello")
	p.b.move(t)
	got := make(chan reply, 1)
	go func() { got <- p.get("/turns/" + *started.TurnID + "?wait=30") }()
	if topic := <-began; topic != gateway.ThreadTopic(started.ThreadID) {
		t.Errorf("listens to %s", topic)
	}
	run := p.b.host.Runs()[0]
	p.b.host.Say(run, "Hello.")
	p.b.move(t)
	select {
	case r := <-got:
		t.Fatalf("did not wait: %s", r.body)
	case <-time.After(20 * time.Millisecond):
	}
	p.b.host.End(run, gatewaytest.Completed())
	p.b.move(t)
	turn := want[struct{ Turn gateway.Turn }](t, <-got, http.StatusOK).Turn
	if turn.Status != gateway.TurnCompleted || len(turn.Usage) == 0 {
		t.Errorf("told of %+v", turn)
	}
	over := want[struct{ Turn gateway.Turn }](t, p.get("/turns/"+*started.TurnID+"?wait=30"), http.StatusOK).Turn
	if over.Status != gateway.TurnCompleted {
		t.Errorf("a turn that is over: %+v", over)
	}
	select {
	case <-began:
		t.Error("waits for what is over")
	default:
	}
}

func TestAPI_WaitForEvents(t *testing.T) {
	t.Parallel()
	p, began := newWaiting(t)
	thread := want[gateway.CreateThreadReply](t, p.call("POST", "/threads", nil), http.StatusCreated).ThreadID
	got := make(chan reply, 1)
	go func() { got <- p.get("/threads/" + thread + "/events?wait=30") }()
	<-began
	p.say(thread, "hello")
	if page := want[struct{ Events []loggedEvent }](t, <-got, http.StatusOK); len(page.Events) == 0 {
		t.Error("answered without an event")
	}
}

func TestAPI_WaitingEndsByItself(t *testing.T) {
	t.Parallel()
	p, began := newWaiting(t)
	started := p.say("", "hello")
	t.Run("after so many seconds", func(t *testing.T) {
		turn := want[struct{ Turn gateway.Turn }](t, p.get("/turns/"+*started.TurnID+"?wait=1"), http.StatusOK).Turn
		if turn.Status != gateway.TurnPending {
			t.Errorf("told of %+v", turn)
		}
		<-began
	})
	t.Run("when the thread is deleted", func(t *testing.T) {
		other := p.say("", "hello")
		got := make(chan reply, 1)
		go func() { got <- p.get("/turns/" + *other.TurnID + "?wait=1") }()
		<-began
		want[any](t, p.call("DELETE", "/threads/"+other.ThreadID, nil), http.StatusNoContent)
		if r := <-got; r.StatusCode != http.StatusNotFound {
			t.Errorf("answered %s %s", r.Status, r.body)
		}
	})
	t.Run("when the server is about to go", func(t *testing.T) {
		got := make(chan reply, 1)
		go func() { got <- p.get("/turns/" + *started.TurnID + "?wait=60") }()
		<-began
		p.b.httpd.Drain()
		want[struct{ Turn gateway.Turn }](t, <-got, http.StatusOK)
	})
}

// TestAPI_WhoseCredentialEndsIsToldNoMore: a program that waits is like a socket.
func TestAPI_WhoseCredentialEndsIsToldNoMore(t *testing.T) {
	t.Parallel()
	began := make(chan string, 8)
	var fan gateway.Bus
	p := newProgram(t, options{api: func(c *httpd.APIConfig) {
		fan = c.Bus
		c.Bus = listening{c.Bus, began}
	}})
	started := p.say("", "hello")
	who, err := p.b.accounts.AuthenticateToken(t.Context(), p.token)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan reply, 1)
	go func() { got <- p.get("/turns/" + *started.TurnID + "?wait=60") }()
	<-began
	fan.Publish(gateway.CredentialTopic(who.CredentialID), gateway.Push{})
	if r := <-got; r.StatusCode != http.StatusUnauthorized {
		t.Errorf("answered %s %s", r.Status, r.body)
	}
}
