package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"
)

// Limits of the pictures of a prompt (RH12), inclusive.
const (
	MaxImages           = 10
	MaxImageBytes       = 4 << 20
	MaxImagesTotalBytes = 5 << 20
	MaxImageSide        = 8_192
	MaxImagePixels      = 33_554_432
	MaxImageMemory      = 64 << 20
	maxImageBase64      = (MaxImageBytes + 2) / 3 * 4
)

// codec is one of the four picture formats.
type codec struct {
	mime   string
	magic  func([]byte) bool
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

func codecs() []codec {
	prefix := func(p string) func([]byte) bool {
		return func(b []byte) bool { return bytes.HasPrefix(b, []byte(p)) }
	}
	return []codec{
		{"image/png", prefix("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode},
		{"image/jpeg", prefix("\xff\xd8\xff"), jpeg.DecodeConfig, jpeg.Decode},
		{"image/gif", func(b []byte) bool {
			return bytes.HasPrefix(b, []byte("GIF87a")) || bytes.HasPrefix(b, []byte("GIF89a"))
		}, gif.DecodeConfig, gif.Decode},
		{"image/webp", func(b []byte) bool {
			return len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP"
		}, webp.DecodeConfig, webp.Decode},
	}
}

// checkImages applies RH12. Sizes come before any decoding, so that a hostile
// picture costs no more memory than the limits allow.
func checkImages(images []Image) error {
	if len(images) > MaxImages {
		return imageFault(fmt.Sprintf("A prompt takes at most %d pictures.", MaxImages), "images", "max")
	}
	total := 0
	for i := range images {
		path := fmt.Sprintf("images[%d]", i)
		data, err := imageBytes(images[i].DataBase64, path)
		if err != nil {
			return err
		}
		if total += len(data); total > MaxImagesTotalBytes {
			return imageFault("The pictures together are larger than 5 MiB.", path, "max")
		}
		if err := checkPicture(data, images[i].Mime, path); err != nil {
			return err
		}
	}
	return nil
}

// imageBytes decodes canonical padded base64. Re-encoding catches what the
// decoder skips: line breaks and spare bits.
func imageBytes(text, path string) ([]byte, error) {
	if len(text) > maxImageBase64 {
		return nil, imageFault("A picture is larger than 4 MiB.", path, "max")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(data) != text {
		return nil, imageFault("A picture is not in canonical base64.", path, "type")
	}
	switch {
	case len(data) == 0:
		return nil, imageFault("A picture is empty.", path, "min")
	case len(data) > MaxImageBytes:
		return nil, imageFault("A picture is larger than 4 MiB.", path, "max")
	}
	return data, nil
}

func checkPicture(data []byte, mime, path string) error {
	for _, c := range codecs() {
		if !c.magic(data) {
			continue
		}
		if c.mime != mime {
			return imageFault("A picture is not of the type that it is declared as.", path, "enum")
		}
		return c.check(data, path)
	}
	return imageFault("A picture is none of PNG, JPEG, GIF, WebP.", path, "enum")
}

func (c codec) check(data []byte, path string) error {
	cfg, err := c.config(bytes.NewReader(data))
	if err != nil {
		return imageFault("A picture cannot be decoded.", path, "type")
	}
	pixels := int64(cfg.Width) * int64(cfg.Height)
	if cfg.Width > MaxImageSide || cfg.Height > MaxImageSide || pixels > MaxImagePixels ||
		pixels*pixelBytes(cfg.ColorModel) > MaxImageMemory {
		return imageFault("A picture has too many pixels.", path, "max")
	}
	if _, err := c.decode(bytes.NewReader(data)); err != nil {
		return imageFault("A picture cannot be decoded.", path, "type")
	}
	return nil
}

// pixelBytes is what one decoded pixel takes at most.
func pixelBytes(m color.Model) int64 {
	switch m {
	case color.GrayModel:
		return 1
	case color.Gray16Model:
		return 2
	case color.YCbCrModel:
		return 3
	case color.RGBA64Model, color.NRGBA64Model:
		return 8
	}
	if _, paletted := m.(color.Palette); paletted {
		return 1
	}
	return 4
}

func imageFault(message, path, rule string) *Error {
	e := NewError(CodeImageInvalid, message)
	e.Fields = []Field{{Path: path, Rule: rule}}
	return e
}
