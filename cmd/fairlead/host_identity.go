package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fairlead/fairlead/relay/wire"
)

// Files of an enrolled host, in its folder. The key never leaves it (RH46).
const (
	enrolmentName = "gateway.json"
	hostKeyName   = "host.key"
	// newKeyName is a key that a gateway may know already while gateway.json does not
	// name it yet: the answer to a join may have been lost.
	newKeyName = "host.key.new"
)

// enrolment is which gateway a host belongs to. Once it is there, only
// `host join --replace` changes it (RH45, RH59).
type enrolment struct {
	URL       string `json:"url" validate:"required"`
	GatewayID string `json:"gatewayId" validate:"required,maxbytes=128"`
	HostID    string `json:"hostId" validate:"required,relayid"`
	// PublicKey says which of the two keys is the one in force, so that replacing one
	// may be cut short anywhere.
	PublicKey string `json:"publicKey" validate:"required,maxbytes=64"`
	Insecure  bool   `json:"insecure,omitempty"`
}

// identity is an enrolled host.
type identity struct {
	enrolment
	key ed25519.PrivateKey
}

// authorization signs a nonce of the gateway.
func (i *identity) authorization(nonce string) string {
	proof := wire.HostLinkProof(i.GatewayID, i.HostID, nonce)
	return wire.HostAuthorization{HostID: i.HostID, Nonce: nonce, Signature: ed25519.Sign(i.key, proof)}.Header()
}

var errNotJoined = errors.New("this host has not joined a gateway yet; an admin makes an invitation with " +
	"`fairlead admin host invite`, then run `fairlead host join URL TOKEN` with the data_dir that this command has")

// readEnrolment gives nil for a folder that is not enrolled.
func readEnrolment(dir string) (*enrolment, error) {
	file := filepath.Join(dir, enrolmentName)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("enrolment of this host: %w", err)
	}
	var e enrolment
	if json.Unmarshal(raw, &e) != nil || len(wire.ValidateStruct(e)) > 0 {
		return nil, wire.NewError(wire.CodeStateUntrusted, file+" does not say which gateway this host belongs to. "+
			"It was left as it is: put a backup in its place, or join again with --replace.")
	}
	return &e, nil
}

func (e *enrolment) write(dir string) error {
	raw, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("enrolment of this host: %w", err)
	}
	if err := writePrivate(filepath.Join(dir, enrolmentName), append(raw, '\n')); err != nil {
		return fmt.Errorf("enrolment of this host: %w", err)
	}
	return nil
}

// loadIdentity reads who this host is, and ends the replacement of a key that was
// cut short.
func loadIdentity(dir, hostID string) (*identity, error) {
	e, err := readEnrolment(dir)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, fmt.Errorf("%s: %w", dir, errNotJoined)
	}
	if e.HostID != hostID {
		return nil, wire.NewError(wire.CodeTargetMismatch, "This folder was enrolled as another host, to which its conversations belong. "+
			"Put the files `target` and `gateway.json` of one host back together.")
	}
	key, err := keyInForce(dir, e)
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, errKeyGone()
	}
	return &identity{enrolment: *e, key: key}, nil
}

func errKeyGone() error {
	return wire.NewError(wire.CodeStateUntrusted, "The key of this host is not in its folder. "+
		"Put a backup in its place, or have the host revoked at the gateway and join again with --replace.")
}

// keyInForce gives the key that the gateway knows, nil if it is not there, and ends
// the replacement of a key that was cut short.
func keyInForce(dir string, e *enrolment) (ed25519.PrivateKey, error) {
	for _, name := range []string{hostKeyName, newKeyName} {
		key, err := readKey(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if key == nil || publicText(key) != e.PublicKey {
			continue
		}
		if name == newKeyName {
			err = keepNewKey(dir)
		}
		return key, err
	}
	return nil, nil
}

// keepNewKey gives the key in force its lasting name.
func keepNewKey(dir string) error {
	if err := renameDurably(dir, newKeyName, hostKeyName); err != nil {
		return fmt.Errorf("key of this host: %w", err)
	}
	return nil
}

// unusedKey gives the key of an earlier join that had no answer, so that the same
// join has the same answer, or makes one.
func unusedKey(dir string) (ed25519.PrivateKey, error) {
	file := filepath.Join(dir, newKeyName)
	if key, err := readKey(file); key != nil || err != nil {
		return key, err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("key of this host: %w", err)
	}
	text := base64.RawStdEncoding.EncodeToString(key.Seed())
	if err := writePrivate(file, []byte(text+"\n")); err != nil {
		return nil, fmt.Errorf("key of this host: %w", err)
	}
	return key, nil
}

// dropUnusedKey forgets a key that a gateway revoked before this host learned that it
// had joined with it.
func dropUnusedKey(dir string) error {
	if err := os.Remove(filepath.Join(dir, newKeyName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("key of this host: %w", err)
	}
	return nil
}

// readKey gives nil for a file that is not there.
func readKey(file string) (ed25519.PrivateKey, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("key of this host: %w", err)
	}
	seed, err := base64.RawStdEncoding.DecodeString(string(trimNewline(raw)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, wire.NewError(wire.CodeStateUntrusted, file+" does not hold a host's key. It was left as it is: put a backup in its place, or move it away and join again.")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func trimNewline(raw []byte) []byte {
	if n := len(raw); n > 0 && raw[n-1] == '\n' {
		return raw[:n-1]
	}
	return raw
}

func publicText(key ed25519.PrivateKey) string {
	public, _ := key.Public().(ed25519.PublicKey)
	return base64.RawURLEncoding.EncodeToString(public)
}
