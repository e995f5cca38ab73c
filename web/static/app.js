// What the admin pages do beyond plain forms and links. Everything works without
// it. Behaviour hangs on data-* attributes; htmx brings in parts of pages, so
// events are caught at the document and set-up runs for what was brought.
"use strict";
(() => {
  const undoSeconds = 10;

  // "/" goes to the field for keys, from anywhere but another field.
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const field = document.querySelector("[data-goto]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    }
    if (event.key === "Escape") { for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false; }
  });

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      const label = copy.querySelector("span") || copy;
      await navigator.clipboard.writeText(copy.dataset.copy);
      const before = label.textContent;
      label.textContent = "Copied";
      setTimeout(() => { label.textContent = before; }, 1500);
    }
    const show = event.target.closest("[data-show]");
    if (show) {
      const field = document.getElementById(show.dataset.show);
      const shown = field.type === "text";
      field.type = shown ? "password" : "text";
      show.textContent = shown ? "Show" : "Hide";
      show.setAttribute("aria-pressed", String(!shown));
    }
    const close = event.target.closest("[data-close]");
    if (close) { event.preventDefault(); close.closest("dialog").close(); }
  });

  // A box that stands for all the boxes of its form.
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) {
      for (const box of event.target.form.querySelectorAll("input.row-box")) box.checked = event.target.checked;
    }
    if (event.target.matches("input.row-box, [data-all]")) countBoxes(event.target.form);
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });

  function countBoxes(form) {
    const count = form.querySelectorAll("input.row-box:checked").length;
    for (const place of form.querySelectorAll("[data-selected]")) place.textContent = String(count);
  }

  // A button that stays off until its field holds the very text asked for.
  document.addEventListener("input", (event) => {
    const wanted = event.target.dataset.confirm;
    if (wanted !== undefined) {
      const button = document.getElementById(event.target.dataset.confirms);
      button.setAttribute("aria-disabled", String(event.target.value.trim() !== wanted));
    }
  });

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
      count.textContent = left + " s";
    }, 1000);
    count.textContent = left + " s";
  }

  function setUp(root) {
    for (const hidden of root.querySelectorAll("[data-copy][hidden], [data-show][hidden], [data-js][hidden]")) hidden.hidden = false;
    for (const toast of root.querySelectorAll("[data-toast]")) runToast(toast);
    for (const dialog of root.querySelectorAll("dialog[data-open]")) if (!dialog.open) dialog.showModal();
    for (const field of root.querySelectorAll("[data-confirm]")) field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  setUp(document);
  document.addEventListener("htmx:load", (event) => setUp(event.detail.elt));
})();
