// What the admin pages do beyond plain forms and links. Everything works without
// it. Behaviour hangs on data-* attributes; htmx brings in parts of pages, so
// events are caught at the document and set-up runs for what was brought.
"use strict";
(() => {
  const undoSeconds = 10;

  // Shortcuts of a single key can be switched off, since speech input types them
  // (WCAG 2.2, 2.1.4). The browser remembers it.
  let singleKeys = true;
  try { singleKeys = localStorage.getItem("single-keys") !== "off"; } catch { /* storage is off: it holds for this page */ }

  function showSingleKeys() {
    document.documentElement.toggleAttribute("data-single-keys-off", !singleKeys);
    for (const box of document.querySelectorAll("input[data-single-keys-off]")) box.checked = !singleKeys;
  }

  // "/" goes to the field for keys, from anywhere but another field; Ctrl+K or
  // Command+K from there, too.
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    const slash = singleKeys && event.key === "/" && !typing && !event.ctrlKey && !event.metaKey;
    const palette = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey;
    if ((slash || palette) && !event.altKey) {
      const field = document.querySelector("[data-goto]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    }
    if (event.key === "Escape") { clearSelection(); for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false; }
  });

  // ---- Keys that move in a list and act on it; "?" shows them ----
  const rowsOfList = () => [...document.querySelectorAll("table.lines > tbody > tr")].filter((row) => row.querySelector("a[href]"));

  function actOn(row, key) {
    const button = document.querySelector("[data-act=" + key + "]");
    const form = button && button.form;
    if (!form) return;
    const box = row && row.querySelector("input.row-box");
    if (!form.querySelector("input.row-box:checked")) {
      if (!box) return;
      box.checked = true;
      countBoxes(form);
    }
    button.click();
  }

  document.addEventListener("keydown", (event) => {
    if (!singleKeys || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const help = document.getElementById("shortcuts");
    if (event.key === "?" && help) { event.preventDefault(); help.showModal(); return; }
    const rows = rowsOfList();
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const box = at >= 0 && rows[at].querySelector("input.row-box");
    switch (event.key) {
      case "j": case "k": {
        const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
        if (next) { event.preventDefault(); next.querySelector("a[href]").focus(); }
        break;
      }
      case "x": if (box) { event.preventDefault(); box.click(); } break;
      case "b": case "e": case "u": event.preventDefault(); actOn(rows[at], event.key); break;
    }
  });

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const label = copy.querySelector("span") || copy;
      await navigator.clipboard.writeText(copy.dataset.copy);
      copy.dataset.label ||= label.textContent; // it says "Copied" when it is pressed again soon
      label.textContent = "Copied";
      setTimeout(() => { label.textContent = copy.dataset.label; }, 1500);
    }
    const show = event.target.closest("[data-show]");
    if (show) {
      const field = document.getElementById(show.dataset.show);
      const shown = field.type === "text";
      field.type = shown ? "password" : "text";
      show.textContent = shown ? "Show" : "Hide";
      show.setAttribute("aria-pressed", String(!shown));
    }
    const chosen = event.target.closest("[data-copy-chosen]");
    if (chosen) {
      const keys = [...chosen.form.querySelectorAll("input.row-box:checked")].map((box) => box.value);
      await navigator.clipboard.writeText(keys.join("\n"));
      chosen.textContent = "Copied";
      setTimeout(() => { chosen.textContent = "Copy keys"; }, 1500);
    }
    if (event.target.closest("[data-shortcuts]")) document.getElementById("shortcuts").showModal();
    if (event.target.closest("[data-pause]")) setPaused(!age.paused);
    if (event.target.closest("[data-clear]")) clearSelection();
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    const close = event.target.closest("[data-close]");
    if (close) { event.preventDefault(); close.closest("dialog").close(); }
  });

  // A box that selects all boxes of its form.
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) {
      for (const box of event.target.form.querySelectorAll("input.row-box")) box.checked = event.target.checked;
    }
    if (event.target.matches("input.row-box, [data-all], [data-all-matching]")) countBoxes(event.target.form);
    if (event.target.matches("[data-single-keys-off]")) {
      singleKeys = !event.target.checked;
      try { localStorage.setItem("single-keys", singleKeys ? "on" : "off"); } catch { /* as above */ }
      showSingleKeys();
    }
    if (event.target.matches("[data-submit]") && isChosen(event.target)) event.target.form.requestSubmit();
  });

  // A field with suggestions is sent when one is chosen; what is half written is
  // sent with Enter only.
  const isChosen = (field) => !field.list || field.value === "" || [...field.list.options].some((option) => option.value === field.value);

  function countBoxes(form) {
    const matching = form.querySelector("[data-all-matching]:checked");
    const count = matching ? Number(matching.dataset.allMatching)
      : [...form.querySelectorAll("input.row-box:checked")].reduce((sum, box) => sum + Number(box.dataset.count || 1), 0);
    for (const place of form.querySelectorAll("[data-selected]")) place.textContent = count.toLocaleString("en");
    for (const place of form.querySelectorAll("[data-of-chosen]")) place.hidden = Boolean(matching);
    let sum = 0;
    for (const box of form.querySelectorAll("input.row-box:checked")) sum += Number(box.closest("tr").dataset.offences || 0);
    for (const place of form.querySelectorAll("[data-selected-offences]")) place.textContent = sum.toLocaleString("en");
  }

  // A button that stays off until its field holds the very text asked for.
  document.addEventListener("input", (event) => {
    const wanted = event.target.dataset.confirm;
    if (wanted !== undefined) {
      const button = document.getElementById(event.target.dataset.confirms);
      button.setAttribute("aria-disabled", String(event.target.value.trim() !== wanted));
    }
  });

  // The browser says beside the field that a time range ends before it begins.
  document.addEventListener("input", (event) => {
    const form = event.target.closest(".custom form");
    if (!form) return;
    const { since, until } = form.elements;
    until.setCustomValidity(until.value && until.value <= since.value ? "The end must be after the beginning." : "");
  });

  // What saves or discards is there once a field differs from what is saved.
  const isField = (field) => field.name && field.type !== "hidden" && field.nodeName !== "BUTTON" && field.nodeName !== "FIELDSET";
  function differs(field) {
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.nodeName === "SELECT") {
      const saved = [...field.options].filter((option) => option.defaultSelected);
      return saved.length > 0 ? !saved.every((option) => option.selected) : field.selectedIndex > 0;
    }
    return field.type === "file" ? field.files.length > 0 : field.value !== field.defaultValue;
  }
  function showChanged(root) {
    for (const act of root.querySelectorAll("[data-after-change]")) {
      const form = document.getElementById(act.dataset.afterChange);
      if (!form) continue;
      const changed = form.dataset.changed !== undefined || [...form.elements].some((field) => isField(field) && differs(field));
      if (act.nodeName === "A") act.hidden = !changed; else act.disabled = !changed;
    }
  }
  for (const kind of ["input", "change"]) document.addEventListener(kind, () => showChanged(document));

  document.addEventListener("reset", (event) => setTimeout(() => countBoxes(event.target)));

  // ---- What happens when the server does not answer, or the session has ended ----
  // The page stays as it is, with what was typed, and says it.
  const probe = document.querySelector('link[rel="icon"]').href;
  const connection = { lost: false, ended: false };
  const probeEvery = 10000; // where a page asks for nothing by itself

  async function answers() {
    try {
      return (await fetch(probe, { cache: "no-store", signal: AbortSignal.timeout(8000) })).ok;
    } catch {
      return false;
    }
  }

  function showConnection() {
    const place = document.querySelector("[data-connection]");
    if (!place) return;
    document.documentElement.toggleAttribute("data-lost", connection.lost);
    place.hidden = !connection.lost && !connection.ended;
    const seconds = Math.round((Date.now() - age.loaded) / 1000);
    const text = connection.lost ? "The server does not answer. Nothing was sent; what you typed stays."
      : connection.ended ? "Your session has ended. Nothing was changed; what you typed stays." : "";
    const shown = place.querySelector("[data-connection-text]");
    if (shown.textContent !== text) shown.textContent = text; // it is read out when it changes
    place.querySelector("[data-connection-age]").textContent = connection.lost ? "What you see is " + seconds + " s old." : "";
    const login = place.querySelector("[data-connection-login]");
    login.hidden = connection.lost;
    login.href = "/login?next=" + encodeURIComponent(location.pathname + location.search);
  }

  function setConnection(changes) {
    Object.assign(connection, changes);
    showConnection();
    showAge();
  }

  // A change that was sent is not sent again by a double click: the next page would
  // be the answer to the second request, without the secret that the first one has.
  const sent = { form: null, button: null, at: 0 };
  const sentFor = 10000; // or until something is typed: the request may have been stopped
  const isSent = (form, button) => sent.form === form && sent.button === button && Date.now() - sent.at < sentFor;
  const forgetSent = () => { sent.form = null; };
  addEventListener("pageshow", forgetSent);
  for (const kind of ["input", "change"]) document.addEventListener(kind, forgetSent);

  // A form is sent once the server has answered: a browser leaves the page for an
  // error page of its own otherwise, and what was typed is gone.
  document.addEventListener("submit", async (event) => {
    const form = event.target, button = event.submitter;
    if (event.defaultPrevented || form.dataset.send === "now") {
      delete form.dataset.send;
      if (!event.defaultPrevented && form.getAttribute("method") === "post") Object.assign(sent, { form, button, at: Date.now() });
      return;
    }
    event.preventDefault();
    if (form.dataset.send === "asking" || isSent(form, button)) return;
    form.dataset.send = "asking";
    const lost = !await answers();
    setConnection({ lost });
    delete form.dataset.send;
    if (lost || !form.isConnected || button && !button.isConnected) return; // without its button it would do something else
    form.dataset.send = "now";
    form.requestSubmit(button);
    delete form.dataset.send;
  });

  for (const kind of ["htmx:sendError", "htmx:timeout"]) document.addEventListener(kind, () => setConnection({ lost: true }));
  document.addEventListener("htmx:afterRequest", (event) => {
    const status = event.detail.xhr.status;
    if (status >= 502 && status <= 504) setConnection({ lost: true });
    else if (status) setConnection({ lost: false, ended: status === 401 });
  });
  setInterval(async () => {
    if (connection.lost) showConnection(); // it says how old the figures are
    if (!document.hidden && !document.querySelector("[data-refresh]") && document.querySelector("[data-connection]")) {
      if (Date.now() - connection.asked < probeEvery) return;
      connection.asked = Date.now();
      setConnection({ lost: !await answers() });
    }
  }, 1000);
  connection.asked = Date.now();

  // After a new login the page that a form was on is filled with what was typed.
  function refill() {
    const kept = JSON.parse(sessionStorage.getItem("unsent") || "null");
    if (!kept) return;
    sessionStorage.removeItem("unsent");
    // The form is the one that has most of the fields: a button may have sent it elsewhere.
    const open = (form) => [...form.elements].filter((e) => e.type !== "hidden" && e.type !== "file" && kept.some(([name]) => name === e.name));
    const [form] = [...document.forms].sort((a, b) => open(b).length - open(a).length);
    for (const field of open(form)) {
      const typed = kept.filter(([name]) => name === field.name).map(([, value]) => value);
      if (field.type === "radio" || field.type === "checkbox") field.checked = typed.includes(field.value);
      else if (field.type !== "submit") field.value = typed[0];
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }
  document.addEventListener("click", (event) => {
    const form = event.target.closest("[data-refill]") && event.target.closest("form");
    if (form) sessionStorage.setItem("unsent", JSON.stringify([...new FormData(form)]));
  });

  // ---- A page that brings itself up to date ----
  // htmx asks for the part again; what differs is taken over in place, so that
  // focus, what was typed or chosen, and open menus stay.
  const age = { loaded: Date.now(), asked: Date.now(), paused: false, notified: false };
  const staleAfter = 30;

  function setPaused(paused) {
    age.paused = paused;
    if (!paused) age.asked = 0; // what was missed is asked for at once
    followStream();
    for (const button of document.querySelectorAll("[data-pause]")) {
      button.setAttribute("aria-pressed", String(paused));
      button.setAttribute("aria-label", paused ? "Resume" : "Pause");
    }
    showAge();
  }

  function showAge() {
    const seconds = Math.round((Date.now() - age.loaded) / 1000);
    for (const place of document.querySelectorAll("[data-age-text]")) {
      const live = streaming();
      const stale = connection.lost || !age.paused && !live && seconds >= staleAfter;
      place.textContent = connection.lost ? "No answer for " + seconds + " s" : age.paused ? "Paused" : frozen(document.querySelector("[data-refresh]")) ? "Paused while you point" : live ? "Live" : stale ? "No update for " + seconds + " s, trying again" : seconds < 2 ? "Updated just now" : "Updated " + seconds + " s ago";
      place.classList.toggle("stale", stale);
    }
  }

  setInterval(() => {
    const part = document.querySelector("[data-refresh]");
    if (!part) return;
    showAge();
    if (age.paused || document.hidden || part.querySelector(".menu[open], [data-dragging]") || isAsking(part)) return;
    if (frozen(part)) return;
    const due = streaming() ? age.notified : Date.now() - age.asked >= Number(part.dataset.refresh);
    if (due) {
      age.asked = Date.now();
      age.notified = false;
      htmx.trigger(part, "refresh");
    }
  }, 500);

  // A form that is about to be sent keeps what its button said when it was pressed.
  const isAsking = (part) => part.querySelector("form[data-send]") !== null || part.closest("form[data-send]") !== null;

  // The rows of a page of events stay where they are while one is pointed at.
  const frozen = (part) => part.dataset.rows !== undefined && part.querySelector("tbody:hover") !== null;

  // A page of events asks for those after the newest that it has.
  const newestRow = (part) => part.dataset.rows !== undefined && part.querySelector("tbody > tr[data-key]");
  document.addEventListener("htmx:configRequest", (event) => {
    const row = newestRow(event.detail.elt);
    if (row) event.detail.parameters.after = row.dataset.key;
  });

  function addRows(part, fresh) {
    const body = part.querySelector("tbody");
    const rows = [...fresh.querySelectorAll("tbody > tr")].map((row) => document.importNode(row, true));
    for (const row of rows) { // equal decisions stay one row, which moves up
      const same = row.dataset.same && [...body.rows].find((old) => old.dataset.same === row.dataset.same);
      if (!same) continue;
      row.dataset.count = Number(row.dataset.count) + Number(same.dataset.count);
      const times = row.querySelector(".times");
      times.textContent = " × " + row.dataset.count;
      times.hidden = false;
      same.remove();
    }
    body.prepend(...rows);
    while (body.rows.length > Number(part.dataset.rows)) body.rows[body.rows.length - 1].remove();
  }

  // Where a page names the stream of its events, an event makes it ask for
  // the part again; while nothing happens nothing is asked. Without the stream
  // the page asks as others do.
  let stream = null;
  const streaming = () => stream !== null && stream.readyState === EventSource.OPEN;

  function followStream() {
    const part = document.querySelector("[data-stream]");
    const wanted = part && !age.paused && !document.hidden;
    if (!wanted && stream) { stream.close(); stream = null; }
    if (!wanted || stream) return;
    stream = new EventSource(part.dataset.stream);
    const notified = () => { age.notified = true; };
    for (const kind of ["open", "decision", "block", "change", "hold", "notice"]) stream.addEventListener(kind, notified);
  }
  document.addEventListener("visibilitychange", followStream);

  // A part of the page is not replaced while it is pressed, since the click would be
  // lost, nor while its form is about to be sent. After the press it is asked for again.
  const press = { on: null, missed: [] };
  const pressTime = 50; // from the release to the click, on a touch screen
  document.addEventListener("pointerdown", (event) => { press.on = event.target; }, { passive: true });
  for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, () => setTimeout(() => {
    press.on = null;
    for (const { verb, path, elt } of press.missed.splice(0)) if (elt.isConnected) htmx.ajax(verb, path, { source: elt });
  }, pressTime), { passive: true });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { requestConfig, target } = event.detail;
    if (!requestConfig || requestConfig.elt.dataset.refresh !== undefined) return; // that leaves what is equal alone
    const pressed = target.contains(press.on);
    if (pressed) press.missed.push(requestConfig);
    if (pressed || isAsking(target)) event.detail.shouldSwap = false;
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.requestConfig && event.detail.requestConfig.elt;
    if (!part || part.dataset.refresh === undefined) return;
    event.detail.shouldSwap = false;
    if (event.detail.xhr.status !== 200 || isAsking(part)) return; // the old figures stay, and say how old they are
    const answer = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    const fresh = answer.getElementById(part.id);
    if (!fresh) return;
    for (const piece of answer.querySelectorAll("[data-frame]")) { // counts and outages, beside the page
      for (const old of document.querySelectorAll("[data-frame=" + piece.dataset.frame + "]")) morph(old, document.importNode(piece, true));
    }
    times.show(fresh); // as the page has them, so that what is equal is left alone
    age.loaded = Date.now();
    // Another run of the node counts its events from 1: its answer holds all of them.
    if (newestRow(part) && part.dataset.run === fresh.dataset.run) { addRows(part, fresh); return; }
    const focused = document.activeElement;
    const row = focused.closest("tbody > tr");
    const place = row && { body: row.parentNode, at: row.sectionRowIndex };
    const used = [...part.querySelectorAll("tbody > tr[data-key]")].find((r) => r.matches(":hover") && isHeld(r.parentNode));
    const top = used && used.getBoundingClientRect().top;
    morph(part, document.importNode(fresh, true));
    if (used && used.isConnected) scrollBy(0, used.getBoundingClientRect().top - top); // what is above it may have grown
    if (document.activeElement !== focused) { // a row that moves loses it, one that has gone leaves it to its successor
      const next = focused.isConnected ? focused : place && place.body.rows[Math.min(place.at, place.body.rows.length - 1)]?.querySelector("a[href]");
      if (next) next.focus({ preventScroll: true });
    }
    setUp(part);
    for (const form of part.querySelectorAll("form")) if (form.querySelector("input.row-box")) countBoxes(form);
  });

  // What was typed into a form belongs to the version that the form names: with a
  // newer one it would replace the change of somebody else unseen.
  const isTypedVersion = (form) => form.nodeName === "FORM" && form.querySelector("[name=expect]") !== null &&
    [...form.elements].some((field) => isField(field) && differs(field));

  // The rows of a list stay where they are while somebody is about to press one:
  // while boxes are chosen, and for as long after the pointer moved over them.
  const heldFor = 10000;
  let pointed = 0;
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, () => { pointed = Date.now(); }, { passive: true });
  const isHeld = (body) => body.nodeName === "TBODY" &&
    (body.querySelector("input.row-box:checked") !== null || Date.now() - pointed < heldFor && body.matches(":hover"));

  // What has no data-key is the same part of a page if it is of the same kind: a
  // notice that comes or goes leaves what is typed into the form below it.
  const hasKey = (node) => Boolean(node.dataset && node.dataset.key);
  const isAlike = (a, b) => a.nodeName === b.nodeName && !hasKey(a) && !hasKey(b) &&
    (a.nodeType !== Node.ELEMENT_NODE || a.getAttribute("id") === b.getAttribute("id") && a.classList[0] === b.classList[0]);
  const findAlike = (from, node) => { while (from && !isAlike(from, node)) from = from.nextSibling; return from; };

  // morph makes one element like another and leaves what is equal alone. Rows
  // that have a data-key are found again wherever they stand.
  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName || old.nodeType !== fresh.nodeType) { old.replaceWith(fresh); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; return; }
    if (old.hasAttribute("data-keep") || isTypedVersion(old)) return;
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "hidden") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "hidden" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const keyed = new Map();
    for (const child of old.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
    if (keyed.size > 0 && isHeld(old)) { // their figures change, and no row comes or goes
      for (const child of fresh.children) if (keyed.has(child.dataset.key)) morph(keyed.get(child.dataset.key), child);
      return;
    }
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const same = child.dataset && keyed.get(child.dataset.key);
      const comes = !same && at && !isAlike(at, child) && findAlike(child.nextSibling, at);
      const goes = !same && !comes && at && !isAlike(at, child) ? findAlike(at, child) : null;
      for (; goes && at !== goes && !hasKey(at);) { const next = at.nextSibling; at.remove(); at = next; }
      if (same) {
        if (same !== at) old.insertBefore(same, at); else at = at.nextSibling;
        morph(same, child);
      } else if (at && !comes && !hasKey(at) && !hasKey(child)) {
        const next = at.nextSibling;
        morph(at, child);
        at = next;
      } else {
        old.insertBefore(child, at);
      }
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  }

  // ---- Dragging over the chart zooms ----
  const chosenSpan = { from: 0, to: 0 };

  function chart() {
    const figure = document.querySelector("[data-areas]");
    const place = document.querySelector("[data-selection]");
    return figure && place ? { figure, place, from: Number(figure.dataset.from), to: Number(figure.dataset.to) } : null;
  }

  function setUpChart() {
    const c = chart();
    if (!c) return;
    const brush = c.figure.querySelector("[data-brush]");
    if (!brush.firstChild) {
      brush.hidden = false;
      brush.setAttribute("data-keep", "");
      const range = document.createElement("div");
      range.className = "brush-range";
      for (const edge of ["from", "to"]) {
        const handle = document.createElement("button");
        handle.type = "button";
        handle.className = "brush-handle " + edge;
        handle.dataset.edge = edge;
        handle.setAttribute("role", "slider");
        handle.setAttribute("aria-label", edge === "from" ? "Beginning of the selection" : "End of the selection");
        range.append(handle);
      }
      brush.append(range);
    }
    drawSelection();
  }

  function selected(c) {
    if (chosenSpan.to > chosenSpan.from) return chosenSpan;
    const from = Number(c.figure.dataset.brushFrom), to = Number(c.figure.dataset.brushTo);
    return to > from ? { from, to } : null;
  }

  // ratio writes a part of a whole as the server does.
  function ratio(part, whole) {
    if (part === 0 || part === whole) return part === 0 ? "0%" : "100%";
    const percent = 100 * part / whole;
    return percent < 0.1 ? "<0.1%" : percent >= 99.95 ? ">99.9%" : percent.toFixed(1) + "%";
  }

  const minute = (ms) => new Date(ms).toISOString().slice(0, 16);

  function drawSelection() {
    const c = chart();
    if (!c) return;
    const range = c.figure.querySelector(".brush-range");
    const s = selected(c);
    const own = chosenSpan.to > chosenSpan.from;
    document.documentElement.toggleAttribute("data-selecting", own);
    c.place.toggleAttribute("data-keep", own);
    range.hidden = !s;
    for (const button of c.place.querySelectorAll("[data-clear]")) button.hidden = !own;
    if (!s) return;
    const share = (t) => 100 * Math.min(1, Math.max(0, (t - c.from) / (c.to - c.from)));
    range.style.left = share(s.from) + "%";
    range.style.width = share(s.to) - share(s.from) + "%";
    for (const handle of range.children) {
      const at = s[handle.dataset.edge];
      handle.setAttribute("aria-valuemin", String(c.from));
      handle.setAttribute("aria-valuemax", String(c.to));
      handle.setAttribute("aria-valuenow", String(Math.round(at)));
      handle.setAttribute("aria-valuetext", times.clock(at, true));
    }
    if (!own) return;
    // A point is counted whole, so the text names the time of all points that the selection touches.
    let refused = 0, all = 0, from = s.from, to = s.to;
    const points = c.figure.dataset.points.split(" ").map((point) => point.split(",").map(Number));
    points.forEach(([at, allowed, turnedAway], i) => {
      const end = i + 1 < points.length ? points[i + 1][0] : c.to;
      if (at >= s.to || end <= s.from) return;
      from = Math.min(from, at);
      to = Math.max(to, end);
      refused += turnedAway;
      all += allowed + turnedAway;
    });
    const text = c.place.querySelector("[data-selection-text]");
    text.hidden = false;
    text.textContent = times.clock(from) + " to " + times.clock(to, true) + " selected: " + refused.toLocaleString("en") + " refused, " +
      ratio(refused, all) + " of checks";
    const address = new URL(location.href);
    for (const name of ["last", "cursor", "at"]) address.searchParams.delete(name);
    address.searchParams.set("since", minute(s.from));
    address.searchParams.set("until", minute(s.to + 59999));
    const zoom = c.place.querySelector("[data-zoom]");
    zoom.href = address.pathname + address.search;
    zoom.hidden = false;
  }

  function clearSelection() {
    if (chosenSpan.to === 0) return;
    chosenSpan.from = chosenSpan.to = 0;
    const c = chart();
    if (!c) return;
    c.place.removeAttribute("data-keep");
    const text = c.place.querySelector("[data-selection-text]");
    if (c.figure.dataset.brushFrom === undefined) {
      text.textContent = "Drag over the chart to zoom in.";
      c.place.querySelector("[data-zoom]").hidden = true;
    }
    drawSelection();
  }

  document.addEventListener("pointerdown", (event) => {
    const brush = event.target.closest("[data-brush]");
    const c = brush && chart();
    if (!c || event.button !== 0) return;
    const box = brush.getBoundingClientRect();
    const at = (e) => c.from + (c.to - c.from) * Math.min(1, Math.max(0, (e.clientX - box.left) / box.width));
    const handle = event.target.closest("[data-edge]");
    const before = selected(c);
    const fixed = handle && before ? before[handle.dataset.edge === "from" ? "to" : "from"] : at(event);
    let moved = false;
    if (!handle) event.preventDefault();
    brush.toggleAttribute("data-dragging", true);
    const move = (e) => {
      if (Math.abs(e.clientX - event.clientX) < 4 && !moved) return;
      moved = true;
      chosenSpan.from = Math.min(fixed, at(e));
      chosenSpan.to = Math.max(fixed, at(e));
      drawSelection();
    };
    const end = () => {
      brush.toggleAttribute("data-dragging", false);
      document.removeEventListener("pointermove", move);
    };
    document.addEventListener("pointermove", move);
    document.addEventListener("pointerup", end, { once: true });
    document.addEventListener("pointercancel", end, { once: true });
  });

  document.addEventListener("keydown", (event) => {
    const handle = event.target.closest && event.target.closest("[data-edge]");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const c = chart();
    const s = handle && step && c && selected(c);
    if (!s) return;
    event.preventDefault();
    const next = { from: s.from, to: s.to };
    next[handle.dataset.edge] = Math.min(c.to, Math.max(c.from, s[handle.dataset.edge] + step * (c.to - c.from) / 60));
    if (next.to > next.from) Object.assign(chosenSpan, next);
    drawSelection();
  });

  document.addEventListener("times", drawSelection);

  // A toast counts down, waits while it is looked at, and goes.
  function runToast(toast) {
    const count = toast.querySelector("[data-count]");
    let left = undoSeconds;
    const address = new URL(location.href);
    address.searchParams.delete("done");
    address.searchParams.delete("ids");
    history.replaceState(history.state, "", address);
    const tick = setInterval(() => {
      if (toast.matches(":hover, :focus-within")) return;
      if (--left <= 0) { clearInterval(tick); toast.remove(); return; }
      if (count) count.textContent = left + " s";
    }, 1000);
    if (count) count.textContent = left + " s"; // it is there where there is something to undo
  }

  // Screen readers say the error of a field with the field.
  let errors = 0;
  function describeErrors(root) {
    for (const error of root.querySelectorAll(".field-error:not([id])")) {
      const field = error.parentElement.querySelector("[aria-invalid=true]") || error.closest("fieldset");
      if (!field) continue;
      error.id = "error-" + ++errors;
      field.setAttribute("aria-describedby", [field.getAttribute("aria-describedby"), error.id].filter(Boolean).join(" "));
    }
  }

  function setUp(root) {
    for (const hidden of root.querySelectorAll("[data-show][hidden], [data-js][hidden], [data-age][hidden]")) hidden.hidden = false;
    // Browsers have no clipboard for pages that came without TLS from another machine.
    if (navigator.clipboard) for (const copy of root.querySelectorAll("[data-copy][hidden], [data-copy-chosen][hidden]")) copy.hidden = false;
    for (const plain of root.querySelectorAll("[data-nojs]")) plain.hidden = true;
    for (const toast of root.querySelectorAll("[data-toast]")) runToast(toast);
    for (const dialog of root.querySelectorAll("dialog[data-open]")) if (!dialog.open) dialog.showModal();
    describeErrors(root);
    for (const field of root.querySelectorAll("[data-confirm]")) field.dispatchEvent(new Event("input", { bubbles: true }));
    showChanged(root);
    setUpChart();
  }
  setUp(document);
  showSingleKeys();
  // A form that was refused may be far below a long list.
  addEventListener("load", () => requestAnimationFrame(() => { // once autofocus has happened, which may be on another field
    const refused = document.querySelector("main [aria-invalid=true], main fieldset[aria-describedby^=error-] input");
    const at = document.activeElement;
    if (refused && (at === document.body || at.autofocus)) refused.focus();
  }));
  // On a phone the strip of pages scrolls to where one is.
  const here = document.querySelector(".nav [aria-current]");
  if (here) here.closest(".nav").scrollLeft = here.offsetLeft - innerWidth / 2 + here.offsetWidth / 2;
  const policy = document.querySelector(".policy-list [aria-current]");
  if (policy) policy.closest(".policy-list").scrollTop = policy.offsetTop - policy.closest(".policy-list").clientHeight / 2;
  document.addEventListener("DOMContentLoaded", refill); // once htmx listens to the fields
  followStream();
  document.addEventListener("htmx:load", (event) => setUp(event.detail.elt));
})();
