package httpd

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ParsePublicURL checks the address under which people reach the server: http or
// https, a host, and optionally the path that everything stands under.
func ParsePublicURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("public URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("public URL: it must start with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("public URL: it names no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("public URL: only scheme, host, port and path are allowed")
	case u.RawPath != "" || strings.ContainsAny(u.Path, "{}\"<>;, ") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/."):
		return nil, errors.New("public URL: its path may hold only plain segments")
	}
	u.Host = canonicalHost(u.Scheme, u.Host)
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// canonicalHost is the form that browsers use in Origin: lower case, without the
// port that the scheme implies.
func canonicalHost(scheme, host string) string {
	host = strings.ToLower(host)
	switch scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// SetupURL is the address of the one-time setup link.
func SetupURL(public *url.URL, token string) string {
	return originOf(public) + public.Path + "/setup?token=" + url.QueryEscape(token)
}

// InvitationURL is the address of the one-time link of an invitation.
func InvitationURL(public *url.URL, secret string) string {
	return originOf(public) + public.Path + joinPath + "?token=" + url.QueryEscape(secret)
}
