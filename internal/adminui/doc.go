// Package adminui is the admin pages: server-rendered, working without
// JavaScript, on the admin listener beside the REST API. A page asks the domain
// (rules.Store, blocks.Store, ...) directly, never HTTP.
//
// # To add a page
//
//  1. One file here: a struct that embeds Frame and has a field for everything
//     the template shows, a method that lists the page's routes, and a handler
//     for each:
//
//     type thingsPage struct {
//     Frame
//     Things []thing
//     }
//
//     func (u *UI) thingRoutes() []httpserver.Route {
//     return []httpserver.Route{
//     u.get("/things", identity.Read, u.things),
//     u.post("/things/:id/end", identity.Operate, u.endThing),
//     }
//     }
//
//  2. One template, web/templates/things.html, that defines "content" (and, if
//     the page has some, "topbar" for what stands at the right of the top bar).
//     The handler ends with u.render(c, http.StatusOK, "things", page).
//     u.part(c, "things", "rows", page) answers one of its templates alone, for
//     htmx.
//
//  3. One line in UI.Routes, and one in nav.go if it stands in the side bar.
//
// Every form is a plain POST that holds {{template "csrf" .}} and is answered by
// u.seeOther; htmx only enhances it. Handlers return errors: UI.failed shows a
// *fault.Error as its page. A form that is to be shown again with its fieldErrors
// uses Mistakes.
//
// A page about what happened embeds watch instead of Frame and gets one from
// UI.watching: it knows the span of its address (span.go), makes links that keep
// it (Link, KeyLink, With), and brings itself up to date where its template
// "live" is an element with the id "live" and data-refresh; answer with u.show.
// Charts are areas, spark, bars and timeLine, drawn in shares of their width.
// Actions from such a page are in act.go and go back to it with a toast.
//
// What is there to use in templates (web/templates/parts.html and funcs.go):
// {{template "key" (key .Text)}}, {{template "when" (when .Time)}},
// {{template "decision" (decision "limited" "20/min")}}, {{icon}}s by
// {{template "icon-search"}}, num, compact, dur, rule, share, ago. The classes
// are in web/static/app.css, grouped as in its head. There are no inline styles
// and scripts: the content security policy forbids them. Geometry is drawn with
// SVG attributes; behaviour hangs on data-* attributes in app.js.
package adminui
