// Keeps the page up to date: the server says that a cycle has ended, and the parts that differ are exchanged.
"use strict";
(() => {
  const note = document.getElementById("live");
  let wanted = false;
  let busy = false;

  async function update() {
    wanted = true;
    if (busy) return;
    busy = true;
    try {
      while (wanted) {
        wanted = false;
        const answer = await fetch(location.href, { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        exchange(new DOMParser().parseFromString(await answer.text(), "text/html"));
      }
      say("live");
    } catch {
      say("the page could not be read again");
    } finally {
      busy = false;
    }
  }

  function exchange(fresh) {
    document.title = fresh.title;
    for (const old of document.querySelectorAll("[data-part]")) {
      const part = fresh.querySelector(`[data-part="${old.dataset.part}"]`);
      if (!part || part.outerHTML === old.outerHTML) continue;
      // What the reader has opened stays open, and the focus stays where it was.
      const open = [...old.querySelectorAll("details")].map((one) => one.open);
      part.querySelectorAll("details").forEach((one, index) => { one.open = open[index] ?? one.open; });
      const focused = old.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
      old.replaceWith(part);
      if (focused !== undefined) part.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
    }
  }

  function say(text) {
    if (note.textContent !== text) note.textContent = text;
    note.dataset.state = text === "live" ? "live" : "late";
  }

  function listen() {
    const events = new EventSource("/events");
    events.addEventListener("cycle", update);
    events.addEventListener("trouble", update);
    events.onopen = () => say("live");
    events.onerror = () => {
      say("no connection; trying again");
      // A browser does so by itself, but not after an answer that is an error: a proxy's 502, or 503 for one too many.
      if (events.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
    };
  }

  listen();
})();
