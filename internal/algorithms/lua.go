package algorithms

import (
	_ "embed"
	"strings"
)

//go:embed engine.lua
var engineLua string

// Lua returns the counters for Redis as the beginning of a script or a function library. It
// defines one local variable, engine, with the functions that engine.lua describes.
func Lua() string {
	var text strings.Builder
	text.WriteString("local engine = (function()\n" + engineLua)
	for _, a := range WithPoints() {
		if !a.IsLog() {
			text.WriteString("\ncounters." + a.Name + " = (function()\n" + a.Lua + "end)()\n")
		}
	}
	text.WriteString("return engine\nend)()\n")
	return text.String()
}
