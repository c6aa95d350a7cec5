package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/static"
	"github.com/fairlead/fairlead/views"
)

// Accounts is what the pages need of *accounts.Service.
type Accounts interface {
	People
	NeedsSetup(ctx context.Context) (bool, error)
	CheckSetupLink(ctx context.Context, token string) error
	Setup(ctx context.Context, req accounts.SetupRequest) (accounts.Session, error)
	Login(ctx context.Context, req accounts.LoginRequest) (accounts.Session, error)
	Logout(ctx context.Context, secret, address string) error
	Account(ctx context.Context, actor gateway.Actor) (gateway.Account, error)
	Org(ctx context.Context, actor gateway.Actor) (gateway.Org, error)
	RecordRefusal(ctx context.Context, address, route string) error
}

// Chats is what the chat page starts from; *chat.Service is one. Threads that are
// not the actor's are not_found.
type Chats interface {
	List(ctx context.Context, actor gateway.Actor, req gateway.ListRequest) (gateway.ListReply, error)
	Open(ctx context.Context, actor gateway.Actor, req gateway.OpenRequest) (gateway.OpenReply, error)
}

// Check is one condition of readiness. Its error is for the log; the answer of
// /readyz holds its name alone.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// Metrics observes requests and serves what it observed.
type Metrics interface {
	http.Handler
	// ObserveRequest is told of every answer but those of sockets. Route is a
	// pattern of the table, or "none".
	ObserveRequest(route, method string, status int, took time.Duration)
}

// Config is what a Server needs. All but Metrics, Checks, Version and StaticDir
// are required.
type Config struct {
	Gate      *Gate
	Accounts  Accounts
	Chats     Chats
	Dashboard *Dashboard
	// API is what the HTTP JSON API works with.
	API APIConfig
	// Socket serves GET /ws. It is called only for callers that Gate lets in.
	Socket http.Handler
	// Control serves GET /ws/control, for tokens with the scope relay:control; without
	// it there are no control planes.
	Control http.Handler
	// Hosts knows the relay hosts on other machines.
	Hosts Hosts
	// HostLink upgrades GET /ws/host for a host that Hosts lets in, and serves its link
	// until it, or ctx, ends.
	HostLink func(ctx context.Context, w http.ResponseWriter, r *http.Request, hostID string)
	Metrics  Metrics
	Checks   []Check
	Logger   *slog.Logger
	Version  string
	// StaticDir serves static files from disk, for work on them; "" is the
	// embedded ones.
	StaticDir string
}

// Server is the HTTP server.
type Server struct {
	cfg     Config
	gate    *Gate
	log     *slog.Logger
	site    views.Site
	assets  *assets
	routes  []route
	mux     *http.ServeMux
	handler http.Handler

	operations []operation
	openAPI    json.RawMessage
	callers    *callers

	draining atomic.Bool
	leave    sync.Once
	leaving  chan struct{} // closed by Drain
}

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	shutdownTimeout   = 5 * time.Second
)

// New checks the configuration and builds the server's handler.
func New(cfg Config) (*Server, error) {
	if cfg.Gate == nil || cfg.Accounts == nil || cfg.Chats == nil || !cfg.Dashboard.complete() || !cfg.API.complete() ||
		cfg.Socket == nil || cfg.Hosts == nil || cfg.HostLink == nil || cfg.Logger == nil {
		return nil, errors.New("httpd: Gate, Accounts, Chats, Dashboard, API, Socket, Hosts, HostLink and Logger are required")
	}
	var files fs.FS = static.FS
	if cfg.StaticDir != "" {
		files = os.DirFS(cfg.StaticDir)
	}
	base := cfg.Gate.public.Path
	a, err := newAssets(files, base, cfg.StaticDir != "")
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, gate: cfg.Gate, log: cfg.Logger, assets: a, mux: http.NewServeMux(),
		site: views.Site{Base: base, Assets: a.prefix(), Version: cfg.Version},

		operations: apiTable(), callers: newCallers(cfg.API.CommandsPerSecond, cfg.API.InFlight),
		leaving: make(chan struct{}),
	}
	if s.openAPI, err = s.describe(); err != nil {
		return nil, err
	}
	s.routes = s.table()
	s.handler = s.build()
	return s, nil
}

// ServeHTTP answers one request, middleware included.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Unready makes /readyz tell that the server is about to go, while it still serves
// everybody.
func (s *Server) Unready() { s.draining.Store(true) }

// Drain is Unready, and answers who waits for something.
func (s *Server) Drain() {
	s.Unready()
	s.leave.Do(func() { close(s.leaving) })
}

// Serve answers on the listener until ctx ends, then lets running requests finish
// for at most 5 s. It gives nil after a shutdown in order, and returns only when
// its goroutine ended. It does not wait for sockets.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		// No WriteTimeout: it counts from the request on and would cut long answers
		// (F08). Bodies have a deadline of their own.
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.Drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := srv.Shutdown(grace)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	if stopped := <-failed; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	return err
}
