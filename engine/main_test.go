package engine_test

import (
	"testing"

	"pgkinetic/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
