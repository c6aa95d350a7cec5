package chat

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// backlogTimeout bounds what a scrape waits for the store.
const backlogTimeout = 2 * time.Second

// metrics counts what the chat does. Labels hold dispositions, codes, outcomes
// and states alone, never an id or a name, so that the number of series stays
// fixed. What a transaction does is counted when it is durable.
type metrics struct {
	sends     *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	steers    *prometheus.CounterVec
	turns     *prometheus.CounterVec
	firstText prometheus.Histogram
}

// newMetrics makes the counters and gives them to a registerer, nil for none. One
// that cannot be registered is told of and left out: the chat runs without it.
func newMetrics(reg prometheus.Registerer, store gateway.ChatStore, now func() time.Time, log *slog.Logger) *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		sends: counter("fairlead_chat_sends_total",
			"Accepted messages by what became of them; repeated ones are not counted again.", "disposition"),
		refusals: counter("fairlead_chat_refusals_total", "Messages that were not accepted or refused a turn, by code.", "code"),
		steers:   counter("fairlead_chat_steers_total", "Steers by what became of them.", "outcome"),
		turns:    counter("fairlead_chat_turns_total", "How often a turn has reached a state.", "state"),
		firstText: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_chat_first_text_seconds", Help: "Time from when a turn could go to its host to its first text.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
	}
	m.preset()
	if reg == nil {
		return m
	}
	backlog := &backlogCollector{
		store: store, now: now, log: log,
		waiting: prometheus.NewDesc("fairlead_chat_queue_depth", "Messages that wait in all threads.", nil, nil),
		oldest:  prometheus.NewDesc("fairlead_chat_queue_oldest_seconds", "How long the oldest of them has waited.", nil, nil),
	}
	for _, c := range []prometheus.Collector{m.sends, m.refusals, m.steers, m.turns, m.firstText, backlog} {
		if err := reg.Register(c); err != nil {
			log.Error("a metric of the chat is left out", "error", err)
		}
	}
	return m
}

// preset makes the series that alerts look for, so that they can tell zero from
// absent.
func (m *metrics) preset() {
	for _, d := range []gateway.Disposition{
		gateway.DispositionStarted, gateway.DispositionQueued, gateway.DispositionOrgQueued,
		gateway.DispositionSteering, gateway.DispositionRefused, gateway.DispositionFailed,
	} {
		m.sends.WithLabelValues(string(d))
	}
	for _, code := range []wire.Code{gateway.CodeInsufficientCredits, gateway.CodeQuotaExhausted} {
		m.refusals.WithLabelValues(string(code))
	}
	for _, o := range []gateway.DeliveryState{gateway.DeliveryDelivered, gateway.DeliveryReleased, gateway.DeliveryExpired} {
		m.steers.WithLabelValues(string(o))
	}
	for _, s := range []gateway.TurnStatus{
		gateway.TurnQueued, gateway.TurnPending, gateway.TurnRunning,
		gateway.TurnCompleted, gateway.TurnFailed, gateway.TurnCancelled, gateway.TurnTimeout,
	} {
		m.turns.WithLabelValues(string(s))
	}
}

// sent counts the first reply to a message.
func (m *metrics) sent(reply gateway.SendReply) {
	if !reply.Replayed {
		m.sends.WithLabelValues(string(reply.Disposition)).Inc()
	}
}

// refused counts a message that was not accepted, or whose turn was refused.
func (m *metrics) refused(code wire.Code) { m.refusals.WithLabelValues(string(code)).Inc() }

// steered counts a steer that is settled.
func (m *metrics) steered(state gateway.DeliveryState) { m.steers.WithLabelValues(string(state)).Inc() }

// turned counts a step of a turn's life.
func (m *metrics) turned(to gateway.TurnStatus) { m.turns.WithLabelValues(string(to)).Inc() }

// began notes how long a turn took to its first text.
func (m *metrics) began(took time.Duration) { m.firstText.Observe(took.Seconds()) }

// noteStep tells of a step of a turn's life, once it is durable.
func (s *Service) noteStep(u *unit, from gateway.TurnStatus, t gateway.TurnRow) {
	u.afterCommit(func() { s.metrics.turned(t.Status) })
	if from != unmade {
		return
	}
	u.recordEligible(t)
	if u.bound != nil {
		u.recordBinding(t, *u.bound)
	}
}

// firstText notes that a turn in progress has said its first words.
func (s *Service) firstText(u *unit, turnID string) {
	lt := s.lives.turn(turnID)
	if lt == nil {
		return
	}
	lt.mu.Lock()
	took := time.Duration(u.now-lt.since) * time.Millisecond
	lt.mu.Unlock()
	u.afterCommit(func() { s.metrics.began(took) })
}

// UpdateDelivery also counts a delivery that it settles.
func (u *unit) UpdateDelivery(ctx context.Context, d gateway.DeliveryRow) error {
	if d.SettledAt != 0 {
		u.afterCommit(func() { u.s.metrics.steered(d.State) })
	}
	return u.ChatTx.UpdateDelivery(ctx, d)
}

// backlogCollector reads what waits from the store, once for each scrape.
type backlogCollector struct {
	store           gateway.ChatStore
	now             func() time.Time
	log             *slog.Logger
	waiting, oldest *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *backlogCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.waiting
	ch <- c.oldest
}

// Collect implements prometheus.Collector.
func (c *backlogCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
	defer cancel()
	var b gateway.Backlog
	err := c.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		b, err = tx.Backlog(ctx)
		return err
	})
	if err != nil {
		c.log.ErrorContext(ctx, "waiting messages were not counted", "error", err)
		return
	}
	age := 0.0
	if b.Oldest > 0 {
		age = max(0, c.now().Sub(time.UnixMilli(b.Oldest)).Seconds())
	}
	ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(b.Waiting))
	ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age)
}
