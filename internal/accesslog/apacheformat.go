package accesslog

import (
	"fmt"
	"regexp"
	"strings"
)

// apacheDirective is a directive of Apache's LogFormat.
var apacheDirective = regexp.MustCompile(`%[<>!0-9,]*(?:\{([^}]*)\})?(\^?[a-zA-Z%]i?)`)

// apacheVariables are those of nginx for the directives that are read or that have a shape. All
// others are skipped.
var apacheVariables = map[string]string{
	"h": "$remote_addr", "a": "$remote_addr", "u": "$remote_user", "t": "[$time_local]", "r": "$request", "s": "$status", "m": "$request_method",
	"U": "$uri", "q": "$query", "v": "$server_name", "V": "$host", "b": "$bytes_sent", "B": "$bytes_sent", "O": "$bytes_sent", "I": "$bytes_sent",
	"p": "$server_port", "P": "$pid", "A": "$server_addr", "%": "%",
}

// isApacheFormat reports whether lines are described in the style of Apache's LogFormat.
func isApacheFormat(text string) bool {
	return !formatVariable.MatchString(text) && strings.Contains(text, "%")
}

// fromApache converts a description in the style of Apache's LogFormat to the style of nginx's log_format.
func fromApache(text string) string {
	text = strings.NewReplacer(`\"`, `"`, `\t`, "\t", `\\`, `\`).Replace(text)
	n := 0
	text = apacheDirective.ReplaceAllStringFunc(text, func(directive string) string {
		m := apacheDirective.FindStringSubmatch(directive)
		arg, letter := m[1], m[2]
		rest := ""
		if len(letter) == 2 && letter[0] != '^' { // an i that belongs to the text behind
			letter, rest = letter[:1], letter[1:]
		}
		n++
		skipped := fmt.Sprintf("${skipped%d}%s", n, rest)
		switch {
		case letter == "i" && arg != "":
			return "${http_" + strings.ReplaceAll(strings.ToLower(arg), "-", "_") + "}" + rest
		case letter == "t" && strings.Contains(arg, "sec"):
			return "${msec}" + rest
		case letter == "t" && arg != "":
			return "${time}" + rest
		case letter == "a" && arg == "c", arg != "" && letter != "p" && letter != "P":
			return skipped
		case apacheVariables[letter] != "":
			return apacheVariables[letter] + rest
		}
		return skipped
	})
	return strings.ReplaceAll(text, "$uri$query", "$request_uri")
}
