package wire_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

func TestHostAuthorization_IsReadAsWritten(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, hostID := range []string{"target_1", "a.host.with.dots", "a@b/c:d~e+f-g"} {
		nonce := wire.NewChallenge()
		want := wire.HostAuthorization{
			HostID: hostID, Nonce: nonce, Signature: ed25519.Sign(private, wire.HostLinkProof("gateway_1", hostID, nonce)),
		}
		got, ok := wire.ParseHostAuthorization(want.Header())
		if !ok || got.HostID != hostID || got.Nonce != nonce {
			t.Fatalf("%s is read as %+v", want.Header(), got)
		}
		if !ed25519.Verify(public, wire.HostLinkProof("gateway_1", got.HostID, got.Nonce), got.Signature) {
			t.Errorf("%s: the signature does not hold", hostID)
		}
		if ed25519.Verify(public, wire.HostLinkProof("gateway_2", got.HostID, got.Nonce), got.Signature) {
			t.Errorf("%s: the signature holds for another gateway", hostID)
		}
	}
}

func TestHostAuthorization_RefusesWhatItDoesNotWrite(t *testing.T) {
	t.Parallel()
	nonce := wire.NewChallenge()
	valid := wire.HostAuthorization{HostID: "target_1", Nonce: nonce, Signature: make([]byte, ed25519.SignatureSize)}.Header()
	if _, ok := wire.ParseHostAuthorization(valid); !ok {
		t.Fatalf("%s is not read", valid)
	}
	for name, header := range map[string]string{
		"nothing":            "",
		"another scheme":     strings.Replace(valid, wire.HostScheme, "Bearer", 1),
		"the scheme alone":   wire.HostScheme,
		"no host":            strings.Replace(valid, "target_1", "", 1),
		"a host with a line": strings.Replace(valid, "target_1", "target\n1", 1),
		"no nonce":           strings.Replace(valid, nonce, "", 1),
		"a short nonce":      strings.Replace(valid, nonce, "abc", 1),
		"a short signature":  valid[:len(valid)-4],
		"padding":            valid + "==",
		"trailing bits":      valid[:len(valid)-1] + "B",
		"a blank more":       valid + " ",
	} {
		if got, ok := wire.ParseHostAuthorization(header); ok {
			t.Errorf("%s: %q is read as %+v", name, header, got)
		}
	}
}

func TestRH64_TextOfOthersIsShownShortAndPlain(t *testing.T) {
	t.Parallel()
	if got := wire.ShownText("a\x1b[31mb\r\nc\u2028d\u202ee\u0085é"); got != "a[31mbcdeé" {
		t.Errorf("shown as %q", got)
	}
	if got := wire.ShownText(strings.Repeat("é", 200)); got != strings.Repeat("é", 140) {
		t.Errorf("%d bytes are shown", len(got))
	}
}
