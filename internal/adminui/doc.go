// Package adminui is the admin pages. They are rendered by the server, work without JavaScript, and
// are served on the admin listener together with the REST API. A page calls the domain packages
// directly, never over HTTP.
//
// Pages composes one handler type per page, each with only the stores that it needs. All embed
// *site.Site: routes, the frame, rendering, error pages. Other packages below this one: form reads
// forms and files, chart draws, format formats numbers, times and keys, policies is the policy
// editor, profiles is the page of keys, and administration has the pages for settings and records:
// reports, jobs, tokens.
//
// # To add a page
//
//  1. One file here: a struct for what the template shows, and a handler.
//
//     type thingsPage struct {
//     site.Frame
//     Things []thing
//     }
//
//     type thingsHandler struct {
//     *site.Site
//     things thingStore
//     }
//
//     func (h *thingsHandler) routes() []httpserver.Route {
//     return []httpserver.Route{
//     h.Get("/things", identity.Read, h.showThings),
//     h.Post("/things/:id/end", identity.Operate, h.endThing),
//     }
//     }
//
//  2. One template, web/templates/things.html, that defines "content" and, for
//     the right end of the top bar, "topbar". The handler ends with
//     h.Render(c, http.StatusOK, "things", page). h.RenderPart answers with one
//     template alone, for htmx.
//
//  3. One line in routesOf (pages.go), and one in site/nav.go for the side bar.
//
// Every form is a plain POST with {{template "csrf" .}}, answered by h.Redirect;
// htmx only enhances it. Handlers return errors: Site shows a *fault.Error as a
// page. A form that is shown again with its errors uses form.FieldErrors.
//
// A page with a time range embeds site.MonitorPage instead of Frame, from
// h.NewMonitorPage: it parses the range of its address and makes links that keep
// it (Link, KeyLink, With). It refreshes itself if its template "live" is an
// element with the id "live" and data-refresh; such a handler ends with
// h.RenderLive. A change made from such a page ends with h.ReturnTo, which shows
// a toast (toasts.go).
//
// Templates have {{template "key" (key .Text)}}, {{template "when" (when .Time)}},
// {{template "decision" (decision "limited" "20/min")}}, icons such as
// {{template "icon-search"}}, and the functions of site/templates.go. The classes
// are in web/static/app.css, grouped as in its head. The content security policy
// forbids inline styles and scripts: geometry is in SVG attributes, behaviour in
// data-* attributes that app.js reads.
package adminui
