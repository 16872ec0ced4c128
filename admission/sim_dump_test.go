//go:build sim

package admission

import (
	"fmt"
	"strings"
)

// dump describes the world for whoever replays a seed.
func (w *world) dump() string {
	var s strings.Builder
	fmt.Fprintf(&s, "now %d ms, %d waiting in the process\n", w.now/ms, w.c.Waiting())
	for i, b := range *w.c.budgets.Load() {
		fmt.Fprintf(&s, "budget %d: size %d max %d moves %d share %d need %d waiting pools %d starving %v\n",
			i, b.size, b.max, b.moves, b.share, b.need, b.waiters.Load(), b.starve.head != nil)
	}
	for i, h := range w.hosts {
		fmt.Fprintf(&s, "host %d: connecting %d of %d, queue %v, warming %d\n", i, h.connecting, h.maxConnects, h.queue.head != nil, h.warming)
	}
	for i, p := range w.pools {
		fmt.Fprintf(&s, "pool %d: %+v asked %v closing %d\n", i, p.Counts(), poolWord(p.word.v.Load()).asked(), p.closing.Load())
		for _, r := range p.routes {
			fmt.Fprintf(&s, "  route %+v\n", r.r.Counts())
		}
	}
	for i, c := range w.clients {
		if c.state != clientDone {
			fmt.Fprintf(&s, "client %d on loop %d: state %d, asks %d, since %d ms\n", i, c.loop, c.state, c.asks, c.since/ms)
			if c.wait != nil {
				fmt.Fprintf(&s, "  waiter state %d abroad %v\n", c.wait.state, c.wait.abroad)
			}
		}
	}
	for p, loop := range w.places {
		if p.state != placeFree {
			fmt.Fprintf(&s, "place on loop %d: state %d, holder %v, given up %v, attached %d\n", p.loop, p.state, p.holder != nil, p.givenUp, loop)
		}
	}
	return s.String()
}
