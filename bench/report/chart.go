package report

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"pgkinetic/bench/figures"
)

// Chart shows one figure of several cases: a group of bars for each case, one bar for each target. The scale is that of the
// group, since cases differ by orders of magnitude; each bar bears its value.
type Chart struct {
	Name   string // of the file, without its end
	Title  string
	Series []Bars
	Groups []Group
}

// Bars are those of a target, in a colour that is the target's in all charts.
type Bars struct{ Target, Colour string }

// Group is a case: its name, and the bars in the order of the series, nil where a target has none.
type Group struct {
	Name string
	Bars []*Bar
}

// Bar is a median with its spread, and the text that is shown.
type Bar struct {
	figures.Spread
	Text string
}

// Charts are those of the overview's figures which at least one case has.
func (r *Results) Charts() (charts []Chart) {
	for _, f := range overview {
		info, _ := f.Info()
		better := "less is better"
		if info.Higher {
			better = "more is better"
		}
		c := Chart{Name: string(f), Title: fmt.Sprintf("%s: %s", info.Header(), better)}
		for i, target := range r.Targets() {
			if slices.ContainsFunc(r.Cases, func(k Case) bool { _, ok := k.value(target, f); return ok }) {
				c.Series = append(c.Series, Bars{target, colours[i%len(colours)]})
			}
		}
		for i := range r.Cases {
			if g, ok := r.Cases[i].group(c.Series, info); ok {
				c.Groups = append(c.Groups, g)
			}
		}
		if len(c.Groups) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}

func (c *Case) group(targets []Bars, info figures.Info) (g Group, some bool) {
	g = Group{Name: c.Name, Bars: make([]*Bar, len(targets))}
	for i, bars := range targets {
		if spread, ok := c.value(bars.Target, info.Figure); ok {
			g.Bars[i], some = &Bar{spread, info.Format(spread.Median)}, true
		}
	}
	return g, some
}

// The measures of a chart, in pixels.
const (
	chartWidth = 760
	leftMargin = 130
	barsWidth  = 520
	barHeight  = 14
	barGap     = 3
	groupGap   = 14
	headHeight = 62
)

// colours of the targets: distinct also for the colour-blind (after Okabe and Ito).
var colours = []string{"#999999", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"}

// SVG draws the chart.
func (c *Chart) SVG() string {
	height := headHeight
	for _, g := range c.Groups {
		height += g.height()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
		`font-family="sans-serif" font-size="11">`+"\n", chartWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	text(&b, 16, 22, "start", ` font-size="15" font-weight="bold"`, c.Title)
	c.legend(&b)
	y := headHeight
	for _, g := range c.Groups {
		c.draw(&b, y, g)
		y += g.height()
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c *Chart) legend(b *strings.Builder) {
	x := 16
	for _, bars := range c.Series {
		fmt.Fprintf(b, `<rect x="%d" y="34" width="11" height="11" fill="%s"/>`+"\n", x, bars.Colour)
		text(b, x+16, 44, "start", "", bars.Target)
		x += 34 + 7*len(bars.Target)
	}
}

func (g *Group) bars() (n int) {
	for _, bar := range g.Bars {
		if bar != nil {
			n++
		}
	}
	return n
}

func (g *Group) height() int { return g.bars()*(barHeight+barGap) + groupGap }

func (c *Chart) draw(b *strings.Builder, y int, g Group) {
	most := 0.0
	for _, bar := range g.Bars {
		if bar != nil {
			most = max(most, bar.High)
		}
	}
	if most <= 0 {
		most = 1
	}
	text(b, leftMargin-10, y+g.bars()*(barHeight+barGap)/2+3, "end", "", g.Name)
	for i, bar := range g.Bars {
		if bar == nil {
			continue
		}
		at := func(v float64) float64 { return leftMargin + max(v, 0)/most*barsWidth }
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", leftMargin, y, at(bar.Median)-leftMargin,
			barHeight, c.Series[i].Colour)
		fmt.Fprintf(b, `<path d="M%.1f %dH%.1f" stroke="#000000" stroke-width="1"/>`+"\n", at(bar.Low), y+barHeight/2, at(bar.High))
		text(b, int(at(bar.High))+6, y+11, "start", "", bar.Text)
		y += barHeight + barGap
	}
}

func text(b *strings.Builder, x, y int, anchor, attributes, content string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s"%s>`, x, y, anchor, attributes)
	_ = xml.EscapeText(b, []byte(content)) // a Builder takes everything
	b.WriteString("</text>\n")
}
