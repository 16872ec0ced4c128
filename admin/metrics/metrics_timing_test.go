package metrics

import (
	"io"
	"testing"
)

// What 200 routes tell that have waited for two causes.
func BenchmarkWrite(b *testing.B) {
	m := full(200)
	for i := range m.Routes {
		m.Routes[i].Route = "shop/application_user/checkout-service/" + m.Routes[i].Route
	}
	size := counting{}
	if err := Write(&size, m, ""); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size.bytes))
	for b.Loop() {
		if err := Write(io.Discard, m, ""); err != nil {
			b.Fatal(err)
		}
	}
}

type counting struct{ bytes int }

func (c *counting) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}
