package terminal

import (
	"context"
	"io"
	"time"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
	"github.com/fairlead/fairlead/relay/wire"
)

// List writes the account's threads, newest change first.
type List struct {
	Server client.Options
	Out    io.Writer
	JSON   bool
}

type jsonThread struct {
	Type string `json:"type"`
	client.ThreadInfo
}

// Run asks and writes. Errors as for Once.
func (l List) Run(ctx context.Context) error {
	out := &written{Writer: l.Out}
	err := ask(ctx, l.Server, client.Command{Type: "threads.list", Limit: threadsListed}, func(r client.Reply) {
		var list struct {
			Threads []client.ThreadInfo `json:"threads"`
		}
		r.Into(&list)
		for _, th := range list.Threads {
			if l.JSON {
				writeJSON(out, jsonThread{"thread", th})
				continue
			}
			_, _ = io.WriteString(out, Line(th.ID)+"  "+when(th.UpdatedAt)+"  "+title(th)+"\n")
		}
	})
	if err != nil {
		return err
	}
	return out.err
}

// Check connects once and gives the account that the token acts for. Errors as
// for Once.
func Check(ctx context.Context, server client.Options) (client.Account, error) {
	var who client.Account
	err := talkOnce(ctx, server, client.Tell{Welcome: func(a client.Account, _ bool) { who = a }},
		client.Command{Type: "ping"}, func(client.Reply) {})
	return who, err
}

// ask says one command and gives its reply.
func ask(ctx context.Context, server client.Options, c client.Command, then func(client.Reply)) error {
	return talkOnce(ctx, server, client.Tell{}, c, then)
}

func talkOnce(ctx context.Context, server client.Options, tell client.Tell, c client.Command, then func(client.Reply)) error {
	session := client.NewSession(tell)
	var end error
	session.Call(c, func(r client.Reply, e *wire.Error) {
		if end = errLeave; e != nil {
			end = e
			return
		}
		then(r)
	})
	l := &loop{
		session: session, line: client.NewLine(server),
		down:    func(error, time.Duration) {},
		stop:    func() error { return context.Cause(ctx) },
		settled: func() error { return end },
	}
	return l.run(ctx)
}
