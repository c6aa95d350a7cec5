package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// maxResponseID bounds a provider's id of a response, in bytes; hosts let no longer one
// out.
const maxResponseID = 256

// Categories of usage (SQ74). Input is without what a cache gave or took;
// reasoning stands apart only where it is not part of the output.
const (
	usageInput         = "tokens.input"
	usageOutput        = "tokens.output"
	usageCacheRead     = "tokens.cache_read"
	usageCacheCreation = "tokens.cache_creation"
	usageReasoning     = "tokens.reasoning"
)

// usageOf makes the usage rows of what providers reported for a turn, without
// those of zero. Each response of the turn has rows of its own; of a turn with
// one response that the provider gave no id, the turn's own name stands for it.
func usageOf(virtualID string, p wire.CompletedPayload) []gateway.UsageRow {
	if p.Outcome != nil && len(p.Outcome.Responses) > 0 {
		return usageOfResponses(virtualID, p.Outcome.Responses)
	}
	var reported wire.Usage
	if len(p.Turn.Usage) == 0 || json.Unmarshal(p.Turn.Usage, &reported) != nil {
		return nil
	}
	response := virtualID
	if p.Outcome != nil {
		response = cmp.Or(responseName(p.Outcome.ResponseID), virtualID)
	}
	return usageRows(response, reported)
}

// usageOfResponses tells responses apart that have no id or the same one, by
// their place: rows of one id would count as one booking.
func usageOfResponses(virtualID string, list []wire.ResponseUsage) (rows []gateway.UsageRow) {
	seen := make(map[string]bool)
	for i, r := range list {
		name := cmp.Or(responseName(r.ResponseID), virtualID)
		id := name
		for n := i + 1; seen[id]; n++ {
			id = fmt.Sprintf("%s#%d", name, n)
		}
		seen[id] = true
		rows = append(rows, usageRows(id, r.Usage)...)
	}
	return rows
}

// responseName is a provider's id of a response, "" for one that is none: usage is
// found by it, and not every database takes a key of any length.
func responseName(id string) string {
	if len(id) > maxResponseID {
		return ""
	}
	return id
}

func usageRows(responseID string, reported wire.Usage) (rows []gateway.UsageRow) {
	add := func(category string, n int64) {
		if n > 0 {
			rows = append(rows, gateway.UsageRow{ResponseID: responseID, Category: category, Quantity: n})
		}
	}
	read, written := value(reported.PromptCacheHitTokens), value(reported.PromptCacheWrite)
	add(usageCacheCreation, written)
	add(usageCacheRead, read)
	add(usageInput, count(reported.InputTokens)-min(read, math.MaxInt64-written)-written)
	add(usageOutput, count(reported.OutputTokens))
	if reported.ReasoningOutside {
		add(usageReasoning, value(reported.ReasoningTokens))
	}
	return rows
}

func value(n *uint64) int64 {
	if n == nil {
		return 0
	}
	return count(*n)
}

// count bounds what a provider reports.
func count(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// book books what was reported for a turn, in the transaction that the report
// came with: the rows, and on a metered turn their price. Booking again books
// nothing. A report takes the place of an estimate (F26).
func (s *Service) book(ctx context.Context, u *unit, t *gateway.TurnRow, rows []gateway.UsageRow) error {
	if len(rows) == 0 {
		return nil
	}
	if err := u.AddUsage(ctx, t.ID, rows); err != nil {
		return err
	}
	if t.EstimateInput != 0 || t.EstimateOutput != 0 {
		t.EstimateInput, t.EstimateOutput = 0, 0
		if err := u.UpdateTurn(ctx, *t); err != nil {
			return err
		}
	}
	if t.Billing != string(gateway.BillingMetered) {
		return nil
	}
	return u.Charge(ctx, charges(*t, rows, s.pricesOf(*t), u.now))
}

// pricesOf gives the prices of a metered turn as they are now: those of a route
// whose prices were taken out of the settings meanwhile are zero.
func (s *Service) pricesOf(t gateway.TurnRow) gateway.Prices {
	if s.prices == nil {
		return gateway.Prices{}
	}
	p, _ := s.prices(t.Route, t.Model)
	return p
}

// chargeSpace is the UUID namespace of charge ids. It never changes: with another
// one a report that comes again would be booked again.
const chargeSpace = "5f1c0a2e-8f0b-5c57-9a3e-0d6c2f7b41d9"

// charges prices usage (SQ74): credits are rounded up for each row, and a turn
// that used anything costs at least one. Rows are sorted by category.
func charges(t gateway.TurnRow, usage []gateway.UsageRow, p gateway.Prices, now int64) []gateway.ChargeRow {
	var rows []gateway.ChargeRow
	var sum int64
	for _, use := range usage {
		if use.Quantity <= 0 {
			continue
		}
		c := gateway.ChargeRow{
			ID:    chargeID(t.ID, use.ResponseID, use.Category),
			OrgID: t.OrgID, AccountID: t.AccountID, TurnID: t.ID, Provider: t.Route, Model: t.Model,
			ResponseID: use.ResponseID, Category: use.Category,
			Quantity: use.Quantity, Credits: credits(use.Quantity, priceOf(p, use.Category)), CreatedAt: now,
		}
		sum = min(sum, math.MaxInt64-c.Credits) + c.Credits
		rows = append(rows, c)
	}
	if len(rows) > 0 && sum == 0 {
		rows[0].Credits = 1
	}
	slices.SortStableFunc(rows, func(a, b gateway.ChargeRow) int { return cmp.Compare(a.Category, b.Category) })
	return rows
}

func chargeID(turnID, responseID, category string) string {
	name := encode([]string{turnID, responseID, category})
	return uuid.NewSHA1(uuid.MustParse(chargeSpace), name).String()
}

func priceOf(p gateway.Prices, category string) int64 {
	switch category {
	case usageInput:
		return p.Input
	case usageOutput, usageReasoning:
		return p.Output
	case usageCacheRead:
		return p.CacheRead
	case usageCacheCreation:
		return p.CacheCreation
	}
	return 0
}

// priceUnit is how many tokens a price is for.
const priceUnit = 1_000_000

// maxCharge is the most that one row costs, as much as an org may have: what a host
// reports must not carry the org's credits out of their range.
const maxCharge = 1_000_000_000_000_000

// credits is quantity × price for priceUnit, rounded up.
func credits(quantity, price int64) int64 {
	if quantity <= 0 || price <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(quantity), uint64(price))
	lo, carry := bits.Add64(lo, priceUnit-1, 0)
	hi += carry
	if hi >= priceUnit {
		return maxCharge
	}
	q, _ := bits.Div64(hi, lo, priceUnit)
	return min(count(q), maxCharge)
}

// costed gives the usage of a turn with what it cost.
func costed(usage []gateway.UsageRow, booked []gateway.ChargeRow) []gateway.UsageRow {
	type key struct{ response, category string }
	cost := make(map[key]int64, len(booked))
	for _, c := range booked {
		cost[key{c.ResponseID, c.Category}] = c.Credits
	}
	for i, use := range usage {
		if c, ok := cost[key{use.ResponseID, use.Category}]; ok {
			usage[i].Cost = &c
		}
	}
	return usage
}

// estimate notes on a turn that ends what it may have used, for the case that
// nobody reports it (F26). known tells that a host may have had the turn. A turn
// that its provider turned away before it said a word used nothing.
func (s *Service) estimate(ctx context.Context, u *unit, t *gateway.TurnRow, known bool, text string) error {
	if (!known && t.StartedAt == 0) || (text == "" && turnedAway(t.Error)) {
		return nil
	}
	reported, err := u.Usage(ctx, t.ID)
	if err != nil || len(reported) > 0 {
		return err
	}
	prompt, err := promptOf(ctx, u, *t)
	if err != nil {
		return err
	}
	t.EstimateInput, t.EstimateOutput = tokensOf(t.Context)+tokensOf(prompt), tokensOf(text)
	return nil
}

// turnedAway tells whether a code says that no model has worked on the turn.
func turnedAway(code wire.Code) bool {
	switch code {
	case wire.CodeModelUnreachable, wire.CodeModelRateLimited, wire.CodeModelOverloaded, wire.CodeModelCredentialInvalid,
		wire.CodeModelNotFound, wire.CodeModelRequestRefused, wire.CodeNoHost, gateway.CodeRouteUnavailable, wire.CodeHostOffline:
		return true
	}
	return false
}

// tokensOf counts tokens without knowing the model's own way to count them: a
// word has one for every four characters begun, a number one for every three,
// each other character one, and what is beyond ASCII one for every two bytes.
// Tokenizers of today find fewer in nearly every text, so that the estimate is
// not below what was delivered. It counts what the turn itself added, not the
// history that a provider was shown before it.
func tokensOf(text string) (tokens int64) {
	var letters, digits, spaces int64
	flush := func() {
		tokens += (letters+3)/4 + (digits+2)/3 + spaces/2
		letters, digits, spaces = 0, 0, 0
	}
	for _, r := range text {
		switch {
		case r >= utf8.RuneSelf:
			flush()
			tokens += int64(utf8.RuneLen(r)+1) / 2
		case unicode.IsLetter(r):
			if digits+spaces > 0 {
				flush()
			}
			letters++
		case unicode.IsDigit(r):
			if letters+spaces > 0 {
				flush()
			}
			digits++
		case r == ' ':
			if letters+digits > 0 {
				flush()
			}
			spaces++ // one alone belongs to the word after it
		default:
			flush()
			tokens++
		}
	}
	flush()
	return tokens
}
