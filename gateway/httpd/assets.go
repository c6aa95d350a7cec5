package httpd

import (
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/static"
)

const staticPath = "/static/"

// assets are the static files. Their addresses hold the version of all of them
// together, so that a browser may keep each for ever.
type assets struct {
	files   fs.FS
	base    string
	version string
	// live is set where files may change while they are served.
	live bool
}

func newAssets(files fs.FS, base string, live bool) (*assets, error) {
	version, err := static.Version(files)
	if err != nil {
		return nil, fmt.Errorf("static files: %w", err)
	}
	return &assets{files: files, base: base, version: version, live: live}, nil
}

// prefix is what stands before the name of a file in its address.
func (a *assets) prefix() string { return a.base + staticPath + a.version }

func (s *Server) getStatic(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	version, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, s.site.Base+staticPath), "/")
	info, err := fs.Stat(s.assets.files, name)
	if err != nil || info.IsDir() {
		return wire.NewError(wire.CodeNotFound, "There is no such file.")
	}
	// A page of another version, from before an update, gets the files of today;
	// they must not stay under yesterday's address.
	w.Header().Set("Cache-Control", "no-cache")
	if version == s.assets.version && !s.assets.live {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Header().Set("ETag", `"`+version+`"`)
	}
	http.ServeFileFS(w, r, s.assets.files, name)
	return nil
}
