package accesslog

import (
	"testing"
	"time"
)

func BenchmarkCLFTime(b *testing.B) {
	text := []byte("17/May/2015:10:05:03 +0000")
	for _, version := range []struct {
		name string
		do   func([]byte) error
	}{
		{"fast", func(text []byte) error { _, err := parseCLFTime(text); return err }},
		{"plain", func(text []byte) error {
			_, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(text))
			return err
		}},
	} {
		b.Run(version.name, func(b *testing.B) {
			for range b.N {
				if err := version.do(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
