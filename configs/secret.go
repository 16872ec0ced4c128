package configs

import (
	"fmt"
	"log/slog"
)

// mask stands for every secret that is printed.
const mask = "***"

// Secret is a string that no print, log or encoder shows: each of them yields ***. Reveal is the only way to its bytes.
type Secret string

// Reveal returns the secret itself. The caller must not print, log or put it into an error.
func (s Secret) Reveal() string { return string(s) }

// String returns "***", or nothing for an empty secret, so that "is one set?" stays visible.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// Format writes the mask for every verb: %x or %q would otherwise reach the bytes past String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText masks the secret in JSON and any other text encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue masks the secret in structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
