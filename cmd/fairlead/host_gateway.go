package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// maxGatewayAnswer bounds what a gateway may answer (RH44).
const maxGatewayAnswer = 1 << 20

// gatewayClient asks a gateway what comes before a link: it follows no redirect and
// waits 20 seconds (RH44).
type gatewayClient struct {
	base string // of the gateway, without a slash at its end
	http *http.Client
}

func newGatewayClient(base string) *gatewayClient {
	return &gatewayClient{base: base, http: link.NewClient()}
}

func (c *gatewayClient) close() { c.http.CloseIdleConnections() }

// join enrols the host. Errors: *link.RefusedError; *answerError.
func (c *gatewayClient) join(ctx context.Context, req wire.HostJoin) (joined wire.HostJoined, err error) {
	return joined, c.post(ctx, wire.PathHostJoin, req, &joined)
}

// challenge gets a nonce. Errors: *link.RefusedError; *answerError.
func (c *gatewayClient) challenge(ctx context.Context, hostID string) (got wire.HostChallenge, err error) {
	return got, c.post(ctx, wire.PathHostChallenge, wire.HostChallengeRequest{HostID: hostID}, &got)
}

// answerError is an answer that is not the one that was asked for. Such a gateway is
// not one to link to: any missing, extra or wrong field fails (RH46).
type answerError struct{ problem string }

func (e *answerError) Error() string {
	return "the gateway's answer is not that of a Fairlead gateway of this version: " + e.problem
}

// post asks and reads a strict answer.
func (c *gatewayClient) post(ctx context.Context, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a request to the gateway: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("request to the gateway: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "fairlead-host/"+programVersion())
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("the gateway cannot be reached: %w", withoutURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxGatewayAnswer+1))
	switch {
	case resp.StatusCode/100 == 3:
		return &answerError{fmt.Sprintf("it redirects (%d) to another address, which is not followed; give the address that it leads to", resp.StatusCode)}
	case resp.StatusCode/100 != 2:
		return refusedWith(resp, answer)
	case err != nil:
		return fmt.Errorf("the gateway's answer was cut off: %w", err)
	case len(answer) > maxGatewayAnswer:
		return &answerError{"it is longer than 1 MiB"}
	}
	if err := wire.DecodeStrict(answer, into); err != nil {
		return &answerError{problemOf(err)}
	}
	if err := wire.CheckStruct(into); err != nil {
		return &answerError{problemOf(err)}
	}
	return nil
}

// problemOf names the fields at fault, without what they hold.
func problemOf(err error) string {
	fields := wire.AsError(err).Fields
	if len(fields) == 0 || fields[0].Path == "" {
		return "it is not the JSON that was asked for"
	}
	return fmt.Sprintf("field %s (%s)", wire.ShownText(fields[0].Path), fields[0].Rule)
}

// refusedWith reads a refusal; what is no answer of a gateway, such as a proxy's
// page, counts by its status alone.
func refusedWith(resp *http.Response, body []byte) *link.RefusedError {
	e := &link.RefusedError{Status: resp.StatusCode}
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 12); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	var said struct {
		Error *wire.ErrorBody `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Error != nil {
		e.Code = wire.Code(wire.ShownText(string(said.Error.Code)))
		e.Message = wire.ShownText(said.Error.Message)
	}
	return e
}

// withoutURL leaves out the address, which stands in the message around it.
func withoutURL(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// parseGatewayURL reads the address of a gateway as a person types it. Without TLS
// everybody on the way reads the chats and the one-time token, so plain http is for
// this machine alone, unless insecure says that the way is safe.
func parseGatewayURL(text string, insecure bool) (string, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "", &usageError{"URL must be the gateway's address, such as https://chat.example.com"}
	case u.Scheme != "https" && u.Scheme != "http":
		return "", &usageError{"URL must begin with https:// (or http:// for a gateway on this machine)"}
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", &usageError{"URL must have nothing but host, port and path: the token stands beside it, not in it"}
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return "", &usageError{"with http:// everybody on the way can read what people write and could answer in the gateway's place; " +
			"use https://, or --insecure where the way is encrypted otherwise, such as a VPN"}
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
