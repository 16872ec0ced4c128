package statements

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// names of statements; the last two are one to PostgreSQL.
var scriptNames = []string{
	"", "", "", "a", "b", "c", "A", "s_1",
	strings.Repeat("n", 63) + "1", strings.Repeat("n", 63) + "2",
}

func randomText(r *rand.Rand) string {
	switch r.IntN(14) {
	case 0:
		return fmt.Sprintf("selec %d", r.IntN(3))
	case 1:
		return "deallocate all"
	case 2:
		return "discard all"
	case 3:
		return "begin"
	case 4, 5:
		return "rollback"
	}
	n := r.IntN(12)
	return fmt.Sprintf("select 'c%d' as c%d", n, n)
}

var scriptQueries = []string{
	"select 'c1' as c1", "selec 1", "deallocate all", "discard all", "begin", "rollback", "rollback",
	"deallocate all; select 1/0 as x", "select 'c2' as c2; deallocate all; select 'c3' as c3",
	"deallocate a", "deallocate b",
}

// randomScript is some groups of a client's messages; no block is open behind it.
func randomScript(r *rand.Rand, length int) []message {
	var out []message
	for len(out) < length {
		name := scriptNames[r.IntN(len(scriptNames))]
		switch r.IntN(18) {
		case 0, 1, 2, 3:
			out = append(out, message{"P", name, randomText(r)})
		case 4, 5, 6, 7:
			out = append(out, message{"B", name, ""}, message{"E", "", ""})
		case 8:
			out = append(out, message{"D", name, ""})
		case 9:
			out = append(out, message{"C", name, ""})
		case 10:
			out = append(out, message{"Q", "", scriptQueries[r.IntN(len(scriptQueries))]})
		case 11:
			out = append(out, message{"P", name, randomText(r)}, message{"B", name, ""}, message{"E", "", ""}, message{"S", "", ""})
		case 12:
			out = append(out,
				message{"P", name, "select 'c0' as c0"}, message{"S", "", ""},
				message{"P", name, randomText(r)}, message{"P", name, "selec 1"}, message{"S", "", ""},
				message{"B", name, ""}, message{"E", "", ""}, message{"S", "", ""})
		default:
			out = append(out, message{"S", "", ""})
		}
	}
	return append(out, message{"S", "", ""}, message{"Q", "", "rollback"})
}
