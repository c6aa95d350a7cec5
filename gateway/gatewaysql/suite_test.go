package gatewaysql_test

import (
	"testing"

	"github.com/fairlead/fairlead/gateway/gatewaytest"
)

func TestChatStore(t *testing.T) {
	t.Parallel()
	for _, d := range gatewaytest.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.ChatStore(t, d)
		})
	}
}

func TestAccountStore(t *testing.T) {
	t.Parallel()
	for _, d := range gatewaytest.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.AccountStore(t, d)
		})
	}
}

func TestHostStore(t *testing.T) {
	t.Parallel()
	for _, d := range gatewaytest.Databases(t) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.HostStore(t, d)
		})
	}
}
