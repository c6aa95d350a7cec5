package views_test

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"github.com/fairlead/fairlead/static"
	"github.com/fairlead/fairlead/views"
)

func TestID_IsShortenedAndCopiedWhole(t *testing.T) {
	t.Parallel()
	for id, shown := range map[string]string{
		"019ad3c2-7b11-7c3e-9b1e-2f6a1d6c0a11":  "019ad3c2…6c0a11",
		"binding_019a61d27b117c3e9b1e2f6a1d6c0": shortOf("binding_019a61d27b117c3e9b1e2f6a1d6c0", 12),
		"turn_2e0c2b502054945ff11d4e1e13d27acc": shortOf("turn_2e0c2b502054945ff11d4e1e13d27acc", 9),
		"short":                                 "short",
		"ééééééééééééééééééééé":                 "éééééééé…éééééé",
	} {
		button := parse(t, render(t, views.ID(id))).Find("button")
		if got := button.Text(); got != shown {
			t.Errorf("%q is shown as %q, want %q", id, got, shown)
		}
		if whole, _ := button.Attr("data-copy"); whole != id {
			t.Errorf("%q is copied as %q", id, whole)
		}
	}
}

// shortOf is the expected form of an ASCII id of which head bytes are kept.
func shortOf(id string, head int) string { return id[:head] + "…" + id[len(id)-6:] }

func TestMoment_HoldsTheExactTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 3600)
	doc := parse(t, render(t, views.Moment(time.Date(2026, 11, 30, 11, 31, 4, 118e6, zone))))
	at := doc.Find("time")
	if machine, _ := at.Attr("datetime"); machine != "2026-11-30T10:31:04.118Z" {
		t.Errorf("datetime = %q", machine)
	}
	if exact, _ := at.Attr("title"); exact != "2026-11-30 10:31:04.118 UTC" {
		t.Errorf("title = %q", exact)
	}
	if none := parse(t, render(t, views.Moment(time.Time{}))); none.Find("time").Length() != 0 || !strings.Contains(none.Text(), "–") {
		t.Error("a zero time is not shown as a dash")
	}
}

func TestField_TiesItsErrorToItsInput(t *testing.T) {
	t.Parallel()
	doc := parse(t, render(t, views.Field(views.FieldModel{
		Name: "email", Label: "Email", Type: "email", Value: `a"b`, Error: "Not an address.", Hint: "Yours.", MinLength: 3,
	})))
	input := doc.Find("input#email")
	for name, want := range map[string]string{
		"aria-invalid": "true", "aria-describedby": "email-error email-hint", "value": `a"b`, "minlength": "3",
	} {
		if got, _ := input.Attr(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if doc.Find("label[for=email]").Text() != "Email" || doc.Find("#email-error").Text() != "Not an address." {
		t.Error("the label or the error is missing")
	}
	plain := parse(t, render(t, views.Field(views.FieldModel{Name: "email", Label: "Email", Type: "email"})))
	for _, name := range []string{"aria-invalid", "aria-describedby", "minlength", "autofocus"} {
		if _, there := plain.Find("input").Attr(name); there {
			t.Errorf("a field without fault has %s", name)
		}
	}
}

func TestTurnState_HasAWordForEachStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]views.State{
		"queued": {Tone: views.ToneQueued, Word: "queued"}, "pending": {Tone: views.ToneQueued, Word: "pending"},
		"running": {Tone: views.ToneRunning, Word: "running"}, "completed": {Tone: views.ToneDone, Word: "done"},
		"failed": {Tone: views.ToneFailed, Word: "failed"}, "timeout": {Tone: views.ToneFailed, Word: "timeout"},
		"cancelled": {Tone: views.ToneStopped, Word: "stopped"},
	} {
		if got := views.TurnState(status); got != want {
			t.Errorf("%s is shown as %+v, want %+v", status, got, want)
		}
	}
}

// TestPages_NameFilesThatExist: each style sheet, script and font of a page is
// embedded.
func TestPages_NameFilesThatExist(t *testing.T) {
	t.Parallel()
	for name, page := range gallery() {
		parse(t, render(t, page)).Find("link[href], script[src]").Each(func(_ int, s *goquery.Selection) {
			address, ok := s.Attr("href")
			if !ok {
				address, _ = s.Attr("src")
			}
			file := strings.TrimPrefix(address, site.Assets+"/")
			if _, err := fs.Stat(static.FS, file); err != nil {
				t.Errorf("%s names %s: %v", name, file, err)
			}
		})
	}
}

func TestField_IsATextOrAChoice(t *testing.T) {
	t.Parallel()
	text := parse(t, render(t, views.Field(views.FieldModel{Name: "about", ID: "a-about", Label: "About", Rows: 3, Value: "</textarea>x", Optional: true, MaxLength: 9})))
	area := text.Find("textarea#a-about[name=about][maxlength='9']")
	if area.Text() != "</textarea>x" || area.Is("[required]") || text.Find("label[for=a-about]").Length() != 1 {
		t.Errorf("text: %s", render(t, views.Field(views.FieldModel{Name: "about", Rows: 3})))
	}
	choice := parse(t, render(t, views.Field(views.FieldModel{
		Name: "role", Label: "Role", Value: "b", Error: "No.", Options: []views.Option{{Value: "a", Label: "A"}, {Value: "b", Label: "B"}},
	})))
	if choice.Find("select#role[required][aria-invalid=true] option[selected]").Text() != "B" {
		t.Error("the choice made is not selected")
	}
}

// TestPages_HaveEachIDOnce: labels and descriptions find their element.
func TestPages_HaveEachIDOnce(t *testing.T) {
	t.Parallel()
	for name, page := range gallery() {
		doc := parse(t, render(t, page))
		seen := map[string]bool{}
		doc.Find("[id]").Each(func(_ int, s *goquery.Selection) {
			id, _ := s.Attr("id")
			if seen[id] && !strings.Contains(id, "script") {
				t.Errorf("%s: #%s stands twice", name, id)
			}
			seen[id] = true
		})
		doc.Find("label[for], [aria-describedby], [aria-labelledby]").Each(func(_ int, s *goquery.Selection) {
			for _, key := range []string{"for", "aria-describedby", "aria-labelledby"} {
				for _, id := range strings.Fields(s.AttrOr(key, "")) {
					if !seen[id] && !strings.Contains(name, "hostile") {
						t.Errorf("%s: %s names #%s, which is not there", name, key, id)
					}
				}
			}
		})
	}
}
