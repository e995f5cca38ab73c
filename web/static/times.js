// Times in the time zone of the browser. The server writes all of them in UTC;
// this script writes them again where "Local" is chosen, which the browser
// remembers. What has data-style is a time, at the instant of data-at or of the
// <time> around it; data-zone is the name of the zone that a head or a page
// gives. Fields stay in UTC and say so.
"use strict";
window.times = (() => {
  const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const minute = 60000, day = 24 * 60 * minute;
  const pad = (n, width = 2) => String(n).padStart(width, "0");

  let local = false;
  try { local = localStorage.getItem("times") === "local"; } catch { /* storage is off: it holds for this page */ }

  const hourMinute = (t) => pad(t.getHours()) + ":" + pad(t.getMinutes());
  const second = (t) => hourMinute(t) + ":" + pad(t.getSeconds());
  const milli = (t) => second(t) + "." + pad(t.getMilliseconds(), 3);
  const date = (t) => t.getDate() + " " + months[t.getMonth()];
  const midnight = (t) => Date.UTC(t.getFullYear(), t.getMonth(), t.getDate()); // days then have 24 hours

  // The same styles as in the Go package format.
  const styles = {
    clock: hourMinute,
    second,
    milli,
    "day-milli": (t) => date(t) + ", " + milli(t),
    "date-milli": (t) => date(t) + " " + t.getFullYear() + ", " + milli(t),
    weekday: (t) => weekdays[t.getDay()] + " " + hourMinute(t),
    // An axis has its ticks at midnight UTC.
    day: (t) => t.getHours() + t.getMinutes() === 0 ? date(t) : date(t) + ", " + hourMinute(t),
    short: (t, now) => {
      const days = (midnight(t) - midnight(now)) / day;
      if (days === 0) return hourMinute(t);
      if (days > -7 && days < 0) return styles.weekday(t);
      return date(t) + (t.getFullYear() === now.getFullYear() ? "" : " " + t.getFullYear()) + ", " + hourMinute(t);
    },
    instant: (t, now) => {
      if (Math.abs(t - now) < 10 * minute) return second(t) + "." + Math.floor(t.getMilliseconds() / 100);
      return midnight(t) === midnight(now) ? second(t) : styles.short(t, now);
    },
  };

  // The locales between them abbreviate the zones of America and of Europe; of
  // others there is the offset, "GMT+5:30".
  const names = ["en-US", "en-GB"].map((locale) => new Intl.DateTimeFormat(locale, { timeZoneName: "short" }));
  const known = new Map(); // name by hour, since a page has many times
  function abbreviation(t) {
    const hour = Math.floor(t / (15 * minute));
    if (!known.has(hour)) {
      const found = names.map((format) => format.formatToParts(t).find((part) => part.type === "timeZoneName").value);
      known.set(hour, found.find((name) => !/^(GMT|UTC)[+-]/.test(name)) || found[0]);
    }
    return known.get(hour);
  }

  // text writes an instant. Heads name the zone as of now, so a time at another
  // offset, across a change to or from summer time, has its own behind it.
  function text(t, style, relative, zoned) {
    const now = new Date();
    const ownZone = zoned || t.getTimezoneOffset() !== now.getTimezoneOffset();
    return styles[style](t, relative || now) + (ownZone ? " " + abbreviation(t) : "");
  }

  function put(place, written) {
    place.dataset.utc ??= place.textContent;
    if (place.textContent !== written) place.textContent = written;
  }

  // show writes all times below root as chosen.
  function show(root) {
    if (!local) {
      for (const place of root.querySelectorAll("[data-utc]")) {
        place.textContent = place.dataset.utc;
        place.removeAttribute("data-utc");
      }
      return;
    }
    const now = new Date();
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const place of root.querySelectorAll("[data-style]")) {
      const at = new Date(place.dataset.at || place.closest("time").dateTime);
      put(place, text(at, place.dataset.style, place.dataset.now && new Date(place.dataset.now), place.dataset.zoned !== undefined));
    }
    for (const place of root.querySelectorAll("[data-zone]")) {
      put(place, place.dataset.zone === "name" ? abbreviation(now) + ", the time of " + zone : abbreviation(now));
    }
  }

  function showChoice() {
    for (const button of document.querySelectorAll("[data-times]")) {
      button.setAttribute("aria-pressed", String((button.dataset.times === "local") === local));
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-times]");
    if (!button) return;
    local = button.dataset.times === "local";
    try { localStorage.setItem("times", local ? "local" : "utc"); } catch { /* as above */ }
    showChoice();
    show(document);
    document.dispatchEvent(new CustomEvent("times"));
  });

  showChoice();
  show(document);
  document.addEventListener("htmx:afterSwap", () => show(document));

  return {
    show,
    // clock writes milliseconds since 1970 as hours and minutes, with the zone.
    clock: (ms, zoned) => local ? text(new Date(ms), "clock", null, zoned) : new Date(ms).toISOString().slice(11, 16) + (zoned ? " UTC" : ""),
  };
})();
