package enroll

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Limits of what people and hosts write about a host.
const (
	MaxNameRunes  = 100
	MaxLabels     = 32
	MaxLabelBytes = 64
)

// faultList gathers the faults of a request.
type faultList struct {
	fields   []wire.Field
	messages []string
}

func (f *faultList) add(path, rule, message string) {
	f.fields = append(f.fields, wire.Field{Path: path, Rule: rule})
	f.messages = append(f.messages, message)
}

// name gives a name as it is stored. Control characters would act on the terminal or
// the page that shows it.
func (f *faultList) name(name string) string {
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		f.add("name", "required", "Enter a name.")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unseen):
		f.add("name", "utf8", "The name holds characters that cannot be shown.")
	case utf8.RuneCountInString(name) > MaxNameRunes:
		f.add("name", "max", "A name may have at most 100 characters.")
	}
	return name
}

// unseen are control characters, and those that change the direction of a text.
func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// labels gives labels as they are stored: in their order, each once.
func (f *faultList) labels(labels []string) []string {
	kept := make([]string, 0, len(labels))
	for _, label := range labels {
		label = strings.TrimSpace(label)
		if !validLabel(label) {
			f.add("labels", "type", "A label has 1 to 64 letters, digits or . _ : = / + - and no space.")
			return nil
		}
		if !slices.Contains(kept, label) {
			kept = append(kept, label)
		}
	}
	if len(kept) > MaxLabels {
		f.add("labels", "max", "A host has at most 32 labels.")
	}
	return kept
}

func validLabel(label string) bool {
	return label != "" && len(label) <= MaxLabelBytes && !strings.ContainsFunc(label, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("._:=/+-", r)
	})
}

func (f *faultList) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	e := wire.NewError(wire.CodeBadRequest, strings.Join(f.messages, " "))
	e.Fields = f.fields
	return e
}

func requireAdmin(actor gateway.Actor) error {
	if actor.May(gateway.ScopeAdmin) {
		return nil
	}
	return wire.NewError(wire.CodeForbidden, "Only an admin may do this.")
}

func (s *Service) requireGovernor(ctx context.Context, actor gateway.Actor) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	governs, err := s.governs(ctx, actor)
	if err != nil || governs {
		return err
	}
	return wire.NewError(wire.CodeForbidden, "Hosts serve the whole installation: the admins of its first org manage them.")
}

// entry is an audit entry of an actor.
func (s *Service) entry(action gateway.AuditAction, actor gateway.Actor, target string) gateway.AuditEntry {
	return gateway.AuditEntry{
		ID: newID(), At: s.now(), OrgID: actor.OrgID, AccountID: actor.AccountID, Action: action, Target: target,
	}
}
