// Package static holds what a browser loads beside the pages: style sheets,
// JavaScript modules, fonts and the few vendored libraries, embedded in the
// binary. Nothing is bundled or compiled, so the files that a browser gets are
// the files of this folder.
//
// URLs carry the version of the whole folder (Version), not of each file:
// /static/{version}/js/chat.js. Modules import each other by relative path and
// so stay within one version, and every answer may be cached for ever.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
)

// FS is the folder: css/, js/ and vendor/.
//
//go:embed css js/*.js vendor/*.js vendor/*.woff2 vendor/*.txt
var FS embed.FS

// Version names the content of a static folder in 12 hex digits: the same files
// under the same paths give the same name. fsys is FS, or a folder on disk that
// stands in for it during development.
func Version(fsys fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(fsys, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return addFile(sum, fsys, path)
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func addFile(w io.Writer, fsys fs.FS, path string) error {
	file, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := io.WriteString(w, path+"\x00"); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
