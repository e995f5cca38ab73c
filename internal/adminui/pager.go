package adminui

// pager holds the addresses of the other pages of a list that is read by cursor: of its first
// page and of the next one, "" where there is no such page.
type pager struct{ Newest, Older string }
