package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

func pngBytes(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := enc.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asImage(mime string, data []byte) wire.Image {
	return wire.Image{Mime: mime, DataBase64: base64.StdEncoding.EncodeToString(data)}
}

func pngImage(t testing.TB, w, h int) wire.Image { return asImage("image/png", pngBytes(t, w, h)) }

func encoded(t *testing.T, encode func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// webpPixel is a lossless WebP of one pixel.
func webpPixel(t *testing.T) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// padded puts a chunk that decoders skip behind the header of a PNG, so that the
// file has exactly size bytes.
func padded(t *testing.T, size int) []byte {
	t.Helper()
	p := pngBytes(t, 1, 1)
	const header = 8 + 25 // signature and IHDR
	fill := make([]byte, size-len(p)-12)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(fill)))
	chunk = append(append(chunk, "faIr"...), fill...)
	chunk = binary.BigEndian.AppendUint32(chunk, crcOf(chunk[4:]))
	return append(append(append([]byte{}, p[:header]...), chunk...), p[header:]...)
}

func crcOf(b []byte) uint32 {
	crc := ^uint32(0)
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ 0xedb88320&-(crc&1)
		}
	}
	return ^crc
}

// sized is a PNG that claims to be w × h and holds no pixels.
func sized(t *testing.T, w, h uint32, colour byte, depth byte) []byte {
	t.Helper()
	p := append([]byte{}, pngBytes(t, 1, 1)...)
	binary.BigEndian.PutUint32(p[16:], w)
	binary.BigEndian.PutUint32(p[20:], h)
	p[24], p[25] = depth, colour
	binary.BigEndian.PutUint32(p[29:], crcOf(p[12:29]))
	return p
}

func validateImages(images ...wire.Image) error {
	p := validPrompt()
	p.Images = images
	return p.Validate()
}

func TestRH12_TakesTheFourFormats(t *testing.T) {
	t.Parallel()
	picture := image.NewRGBA(image.Rect(0, 0, 3, 2))
	gifPicture := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})
	for mime, data := range map[string][]byte{
		"image/png":  pngBytes(t, 3, 2),
		"image/jpeg": encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, picture, nil) }),
		"image/gif":  encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, gifPicture, nil) }),
		"image/webp": webpPixel(t),
	} {
		if err := validateImages(asImage(mime, data)); err != nil {
			t.Errorf("%s: %v", mime, err)
		}
		if err := validateImages(asImage(mime, data[:len(data)/2])); wire.CodeOf(err) != wire.CodeImageInvalid {
			t.Errorf("half of a %s: %v", mime, err)
		}
	}
}

func TestRH12_LimitsAreInclusive(t *testing.T) {
	t.Parallel()
	ten := make([]wire.Image, 10)
	for i := range ten {
		ten[i] = pngImage(t, 1, 1)
	}
	mib := asImage("image/png", padded(t, 1<<20))
	for name, images := range map[string][]wire.Image{
		"ten pictures": ten, "4 MiB": {asImage("image/png", padded(t, 4<<20))}, "5 MiB in all": {mib, mib, mib, mib, mib},
		"8,192 pixels wide": {pngImage(t, 8192, 1)}, "8,192 pixels high": {pngImage(t, 1, 8192)},
		"33,554,432 pixels": {pngImage(t, 8192, 4096)},
	} {
		if err := validateImages(images...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRH12_Refuses(t *testing.T) {
	t.Parallel()
	good := pngImage(t, 1, 1)
	mib := asImage("image/png", padded(t, 1<<20))
	spareBits := strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("ab")), "=")
	for _, c := range []struct {
		name   string
		images []wire.Image
	}{
		{"eleven pictures", []wire.Image{good, good, good, good, good, good, good, good, good, good, good}},
		{"more than 4 MiB", []wire.Image{asImage("image/png", padded(t, 4<<20+1))}},
		{"more text than 4 MiB need", []wire.Image{{Mime: "image/png", DataBase64: strings.Repeat("A", 5592412)}}},
		{"more than 5 MiB in all", []wire.Image{mib, mib, mib, mib, asImage("image/png", padded(t, 1<<20+1))}},
		{"an empty file", []wire.Image{{Mime: "image/png"}}},
		{"no padding", []wire.Image{{Mime: "image/png", DataBase64: strings.TrimRight(good.DataBase64, "=") + "A"}}},
		{"spare bits", []wire.Image{{Mime: "image/png", DataBase64: spareBits[:2] + "J="}}},
		{"a line break", []wire.Image{{Mime: "image/png", DataBase64: good.DataBase64[:4] + "\n" + good.DataBase64[4:]}}},
		{"the URL alphabet", []wire.Image{{Mime: "image/png", DataBase64: "__--"}}},
		{"another declared type", []wire.Image{{Mime: "image/gif", DataBase64: good.DataBase64}}},
		{"a declared type cased otherwise", []wire.Image{{Mime: "image/PNG", DataBase64: good.DataBase64}}},
		{"another format", []wire.Image{asImage("image/bmp", []byte("BM not one of the four"))}},
		{"text", []wire.Image{asImage("image/png", []byte("<svg/>"))}},
		{"a header alone", []wire.Image{asImage("image/png", pngBytes(t, 1, 1)[:8])}},
		{"8,193 pixels wide", []wire.Image{asImage("image/png", sized(t, 8193, 1, 0, 8))}},
		{"8,193 pixels high", []wire.Image{asImage("image/png", sized(t, 1, 8193, 0, 8))}},
		{"more than 33,554,432 pixels", []wire.Image{asImage("image/png", sized(t, 8192, 4097, 0, 8))}},
		{"more than 64 MiB decoded", []wire.Image{asImage("image/png", sized(t, 8192, 2049, 6, 8))}},
		{"more than 64 MiB decoded in 16 bits", []wire.Image{asImage("image/png", sized(t, 8192, 1025, 6, 16))}},
		{"one bad among good ones", []wire.Image{good, good, {Mime: "image/png", DataBase64: "AAAA"}}},
	} {
		t.Run("RH12 "+c.name, func(t *testing.T) {
			t.Parallel()
			if err := validateImages(c.images...); wire.CodeOf(err) != wire.CodeImageInvalid {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRH12_APictureIsNeverAPathOrURL(t *testing.T) {
	t.Parallel()
	for _, extra := range []string{"url", "path", "name"} {
		m := marshal(t, validPrompt())
		m["images"] = []byte(`[{"mime":"image/png","dataBase64":"AAAA","` + extra + `":"x"}]`)
		if _, err := parseMap(t, m); wire.CodeOf(err) != wire.CodeCommandInvalid {
			t.Errorf("with %s: %v", extra, err)
		}
	}
}
