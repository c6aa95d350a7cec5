package socket_test

import (
	"strings"
	"testing"
)

// TestSQ15_CG71_SwitchesOfOtherSystemsAreUnknown: a capture of network bodies, or a
// preview of agents, is asked for in vain and aloud; nothing is stored.
func TestSQ15_CG71_SwitchesOfOtherSystemsAreUnknown(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"captureNetworkBodies", "realAgentInPreview"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.chat.threads[goldenThread] = &threadDouble{owner: "acc-ann"}
			c := r.dial("ann")
			c.write(`{"id":"1","type":"message.send","threadId":"` + goldenThread + `","clientEventId":"` + goldenTurn +
				`","userMessage":{"version":1,"parts":[{"type":"text","text":"hi"}]},"` + field + `":true}`)
			want := `"code":"bad_request"`
			got := c.read().raw
			if !strings.Contains(got, want) || !strings.Contains(got, `"fields":[{"path":"`+field+`","rule":"unknown"}]`) {
				t.Errorf("answered %s", got)
			}
			if n := len(r.chat.threads[goldenThread].events); n != 0 {
				t.Errorf("%d events were stored", n)
			}
		})
	}
}
