package routing

import (
	"math/rand/v2"
)

// someKeys are requests that differ in every part.
func someKeys() (keys []Key) {
	for _, database := range []string{"db", "other"} {
		for _, user := range []string{"a", "b/c"} {
			for _, application := range []string{"", "web", "db/a"} {
				for _, from := range []string{"", "10.0.0.1", "::1"} {
					for _, class := range []Class{ClassDefault, ClassWrite, ClassSession} {
						keys = append(keys, Key{database, user, application, addr(from), class})
					}
				}
			}
		}
	}
	return keys
}

func randomOptions(seed uint64) Options {
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(lists ...[]string) []string { return lists[rng.IntN(len(lists))] }
	o := Options{Key: Parts(rng.IntN(AllParts + 1))}
	for range rng.IntN(4) {
		r := Rule{
			Name:        []string{"", "x", "y/z"}[rng.IntN(3)],
			Database:    pick(nil, nil, []string{"d*"}, []string{"other"}),
			User:        pick(nil, nil, []string{"*"}, []string{"a"}),
			Application: pick(nil, nil, []string{"*"}, []string{"web", ""}),
			Unix:        rng.IntN(4) == 0,
			SplitBy:     Parts(rng.IntN(AllParts + 1)),
		}
		if rng.IntN(4) == 0 {
			r.Addrs = prefixes("10.0.0.0/8")
		}
		if rng.IntN(3) == 0 {
			r.Classes = ClassSet(rng.IntN(int(AllClasses) + 1))
		}
		o.Rules = append(o.Rules, r)
	}
	return o
}
