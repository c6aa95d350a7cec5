package chat

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Poll gives the steer that is to be offered to a running turn; see
// gateway.Ledger.
func (s *Service) Poll(context.Context, string, string) (gateway.SteerOffer, error) {
	return gateway.SteerOffer{Outcome: gateway.OfferEmpty}, nil
}

// Receipt records what a host says of a steer; see gateway.Ledger.
func (s *Service) Receipt(context.Context, string, wire.Receipt) (wire.ReceiptOutcome, error) {
	return "", wire.NewError(wire.CodeForbidden, "There is no such delivery.")
}
