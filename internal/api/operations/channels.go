package operations

import (
	"net/http"

	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// channelHandler serves the notification channels and the silences.
type channelHandler struct {
	notifications *use.Notifications
}

func (h *channelHandler) routes() []openapi.Route {
	const channel, silence = wire.PathChannels + "/:name", wire.PathSilences + "/:id"
	return []openapi.Route{
		routes.OnAdmin(http.MethodGet, wire.PathChannels, identity.Read, h.listChannels, opListChannels),
		routes.OnAdmin(http.MethodPost, wire.PathChannels, identity.Admin, h.addChannel, opAddChannel),
		routes.OnAdmin(http.MethodGet, channel, identity.Read, h.getChannel, opGetChannel),
		routes.OnAdmin(http.MethodPatch, channel, identity.Admin, h.changeChannel, opChangeChannel),
		routes.OnAdmin(http.MethodDelete, channel, identity.Admin, h.deleteChannel, opDeleteChannel),
		routes.OnAdmin(http.MethodGet, wire.PathSilences, identity.Read, h.listSilences, opListSilences),
		routes.OnAdmin(http.MethodPost, wire.PathSilences, identity.Operate, h.addSilence, opAddSilence),
		routes.OnAdmin(http.MethodDelete, silence, identity.Operate, h.endSilence, opEndSilence),
	}
}

var (
	opListChannels = &openapi.Operation{
		ID: "listChannels", Tag: "notifications", Summary: "List the notification channels, without their secrets.",
		Answers: routes.OK("The channels, those of the settings first.", wire.Page[wire.Channel]{}),
	}
	opAddChannel = &openapi.Operation{
		ID: "addChannel", Tag: "notifications", Summary: "Set up a notification channel.", Body: wire.ChannelRequest{},
		Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "The channel.", Body: wire.Channel{}, Headers: []openapi.Header{openapi.ETag}}},
	}
	opGetChannel = &openapi.Operation{
		ID: "getChannel", Tag: "notifications", Summary: "Show a notification channel, without its secrets.", Answers: routes.OKTagged("The channel.", wire.Channel{}),
	}
	opChangeChannel = &openapi.Operation{
		ID: "changeChannel", Tag: "notifications", Summary: "Change a notification channel that the settings do not set up and whose ETag If-Match has.", Body: wire.ChannelPatch{},
		IfMatch: true, Answers: routes.OKTagged("The channel.", wire.Channel{}),
	}
	opDeleteChannel = &openapi.Operation{
		ID: "deleteChannel", Tag: "notifications", Summary: "Delete a notification channel that the settings do not set up and whose ETag If-Match has. What waits for it is not sent.",
		IfMatch: true,
		Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "It is deleted."}},
	}
	opListSilences = &openapi.Operation{ID: "listSilences", Tag: "notifications", Summary: "List the silences that apply now.", Answers: routes.OK("The silences.", wire.Page[wire.Silence]{})}
	opAddSilence   = &openapi.Operation{
		ID: "addSilence", Tag: "notifications", Summary: "Silence notifications until a time; what happens in between is never sent. Silencing everything, or the last alarm of attacks or of faults that is still sent, needs the access admin.", Body: wire.SilenceRequest{},
		Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "The silence.", Body: wire.Silence{}}},
	}
	opEndSilence = &openapi.Operation{
		ID: "endSilence", Tag: "notifications", Summary: "End a silence before its time. Ending one of everything needs the access admin.",
		Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "It is ended."}},
	}
)

func (h *channelHandler) listChannels(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	all, err := h.notifications.ListChannels(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.SinglePage(all, fromChannel))
}

func (h *channelHandler) getChannel(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	found, err := h.notifications.FindChannel(c.Context(), name)
	if err != nil {
		return err
	}
	return routes.SendTagged(c, http.StatusOK, found.Tag(), fromChannel(found))
}

func (h *channelHandler) addChannel(c *httpserver.Call) error {
	var r wire.ChannelRequest
	if err := c.DecodeJSON(&r); err != nil {
		return err
	}
	enabled := !r.Disabled
	made, err := h.notifications.AddChannel(c.Context(), routes.CallerOf(c), r.Name, use.ChannelChange{
		Type: &r.Type, URL: r.URL, Signing: r.SigningSecret, From: &r.From, To: &r.To, Kinds: &r.Kinds, UrgentOnly: &r.UrgentOnly, Enabled: &enabled,
	})
	if err != nil {
		return err
	}
	return routes.SendTagged(c, http.StatusCreated, made.Tag(), fromChannel(made))
}

func (h *channelHandler) changeChannel(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	expect, err := routes.NeedIfMatch(c, "Changing a channel")
	if err != nil {
		return err
	}
	var p wire.ChannelPatch
	if err := c.DecodeJSON(&p); err != nil {
		return err
	}
	set := use.ChannelChange{
		Type: given(p.Type), URL: p.URL.Value, From: given(p.From), To: given(p.To), Kinds: given(p.Kinds),
		UrgentOnly: given(p.UrgentOnly), Enabled: given(p.Enabled),
	}
	if p.SigningSecret.Given {
		set.RemoveSigning = p.SigningSecret.Value == nil
		if !set.RemoveSigning {
			set.Signing = *p.SigningSecret.Value
		}
	}
	changed, err := h.notifications.ChangeChannel(c.Context(), routes.CallerOf(c), name, expect, set)
	if err != nil {
		return err
	}
	return routes.SendTagged(c, http.StatusOK, changed.Tag(), fromChannel(changed))
}

// given returns the value of a field that was sent, nil if it was not sent.
func given[T any](c wire.Change[T]) *T {
	if !c.Given {
		return nil
	}
	return &c.Value
}

func (h *channelHandler) deleteChannel(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	expect, err := routes.NeedIfMatch(c, "Deleting a channel")
	if err != nil {
		return err
	}
	if err := h.notifications.DeleteChannel(c.Context(), routes.CallerOf(c), name, expect); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

func (h *channelHandler) listSilences(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	all, err := h.notifications.Silences(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.SinglePage(all, fromSilence))
}

func (h *channelHandler) addSilence(c *httpserver.Call) error {
	var r wire.SilenceRequest
	if err := c.DecodeJSON(&r); err != nil {
		return err
	}
	made, err := h.notifications.AddSilence(c.Context(), routes.CallerOf(c), use.AddSilence{
		Channel: r.Channel, Kind: r.Kind, Reason: r.Reason, Expiry: blocks.Expiry{For: r.ExpiresIn.Std(), Until: r.ExpiresAt.Time},
	})
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, fromSilence(made))
}

func (h *channelHandler) endSilence(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	if _, err := h.notifications.EndSilence(c.Context(), routes.CallerOf(c), id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

func fromChannel(c use.Channel) wire.Channel {
	out := wire.Channel{
		Name: c.Name, Type: string(c.Type), Host: c.Host, From: c.From, To: append([]string{}, c.To...), Kinds: []string{}, UrgentOnly: c.UrgentOnly,
		Enabled: !c.Disabled, Source: "operator", Author: c.Author, CreatedAt: wire.At(c.Created), UpdatedAt: wire.At(c.Updated), UpdatedBy: c.UpdatedBy,
		ETag: wire.NullString(c.Tag()),
	}
	for _, k := range c.Kinds {
		out.Kinds = append(out.Kinds, string(k))
	}
	if c.Preset {
		out.Source = "settings"
	}
	return out
}

func fromSilence(s use.Silence) wire.Silence {
	return wire.Silence{
		ID: s.ID, Channel: s.Channel, Kind: string(s.Kind), Reason: s.Reason, Author: s.Author, CreatedAt: wire.At(s.Created), ExpiresAt: wire.At(s.Until),
	}
}
