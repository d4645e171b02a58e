// Package gauge says whether a bell is rung.
package gauge

// BellMetres is the level that nobody sleeps at.
const BellMetres = 3.0

// Gauge is one staff at one bridge.
type Gauge struct {
	Bridge string
	Levels []float64
}

// Read notes a level and says whether the bell is rung.
func (g *Gauge) Read(metres float64) bool {
	g.Levels = append(g.Levels, metres)
	return metres > BellMetres
}
