// What a browser adds to pages that work without it: live updates, keys, copying, local times.
"use strict";
(() => {
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const kept = {
    get: (name) => { try { return localStorage.getItem("custody." + name); } catch { return null; } },
    set: (name, value) => { try { localStorage.setItem("custody." + name, value); } catch { /* private window */ } },
  };

  // Live: the stream says that something happened; the page then asks for itself, and is morphed.
  let waiting = false, busy = false, last = 0, told = 0, news = 0;
  const paused = () => kept.get("paused") === "yes";
  const reading = () => {
    const here = document.activeElement;
    return !!here && (here.matches("#live input, #live select, #live textarea") || !!here.closest("[data-steady]"));
  };

  async function refresh() {
    if (busy || typeof htmx === "undefined") { waiting = true; return; }
    busy = true; waiting = false;
    try {
      await htmx.ajax("GET", location.pathname + location.search,
        { source: "#live", target: "#live", select: "#live", swap: "outerMorph" });
    } finally {
      busy = false; last = Date.now();
      decorate();
    }
    if (waiting) { setTimeout(changed, 1000); }
  }

  function changed() {
    if (paused()) { return; }
    // What is being read or filled in must not move: say that there is news instead.
    if (reading()) { show(true); return; }
    if (Date.now() - last < 1000) {
      if (!waiting) { waiting = true; setTimeout(() => { waiting = false; changed(); }, 1000); }
      return;
    }
    show(false);
    refresh();
    tell();
  }

  const show = (yes) => { const fresh = find("#fresh"); if (fresh) { fresh.hidden = !yes; } };

  function tell() {
    const said = find("#said");
    if (!said || Date.now() - told < 10000 || !news) { return; }
    told = Date.now();
    said.textContent = news === 1 ? "One thing has happened." : news + " things have happened.";
    said.classList.add("out");
    news = 0;
  }

  // One stream while the page is seen: a browser grants a site few connections, and hidden pages need none.
  let stream = null, since = "0";
  function listen() {
    if (stream || document.hidden) { return; }
    stream = new EventSource("/stream?since=" + since);
    stream.addEventListener("open", () => { document.documentElement.dataset.listening = "yes"; });
    stream.addEventListener("change", (event) => {
      since = event.lastEventId;
      news += JSON.parse(event.data).events;
      changed();
    });
    stream.addEventListener("error", () => {
      // The browser tries again by itself, but not after an answer such as 503.
      if (stream && stream.readyState === EventSource.CLOSED) { leave(); setTimeout(listen, 5000); }
    });
  }
  function leave() {
    if (stream) { stream.close(); stream = null; delete document.documentElement.dataset.listening; }
  }

  function live() {
    const part = find("#live[data-since]"), button = find("#pause");
    if (!part || !button) { return; }
    since = part.dataset.since;
    const label = () => {
      button.setAttribute("aria-pressed", String(paused()));
      button.lastChild.textContent = paused() ? "Live is paused" : "Pause live";
    };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      kept.set("paused", paused() ? "no" : "yes");
      label();
      if (!paused()) { changed(); }
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? leave() : listen()));
    window.addEventListener("pagehide", leave);
    window.addEventListener("pageshow", listen);
    listen();
    const again = find("#refresh");
    again.addEventListener("click", () => { show(false); refresh(); find("#main").focus(); });
  }

  // Times: UTC as sent, or this machine's own.
  function zone() {
    const button = find("#zone");
    button.hidden = false;
    button.addEventListener("click", () => { kept.set("zone", kept.get("zone") === "local" ? "utc" : "local"); times(); });
    times();
  }
  function times() {
    const local = kept.get("zone") === "local", button = find("#zone");
    button.setAttribute("aria-pressed", String(local));
    button.textContent = local ? "Times as on this machine" : "Times in UTC";
    all("time .moment").forEach((moment) => {
      const at = new Date(moment.parentElement.getAttribute("datetime"));
      moment.textContent = local ? at.toLocaleString() : at.toISOString().replace("T", " ").slice(0, 19) + " UTC";
    });
  }

  // Copying, also where the clipboard is out of reach because the page came without TLS.
  async function copy(button) {
    const text = button.dataset.copy, old = button.textContent;
    try { await navigator.clipboard.writeText(text); } catch {
      const field = document.createElement("textarea");
      field.value = text;
      field.className = "out";
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
      button.focus();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = old; }, 1500);
  }

  function decorate() {
    all("button.copy").forEach((button) => { button.hidden = false; });
    if (kept.get("zone") === "local") { times(); }
  }

  // Keys
  let going = 0;
  const rows = () => all("#live [data-row]");
  function step(by) {
    const list = rows(), here = document.activeElement && document.activeElement.closest("[data-row]");
    const next = list[Math.max(0, Math.min(list.length - 1, list.indexOf(here) + by))];
    const link = next && find("a", next);
    if (link) { link.focus(); }
  }
  function open(...names) {
    for (const name of names) {
      const summary = find(`summary[data-act="${name}"]`);
      if (summary) {
        summary.parentElement.open = true;
        (find("input:not([type=hidden])", summary.parentElement) || summary).focus();
        return;
      }
    }
  }
  const KEYS = {
    "/": () => { const box = find("#q"); if (box) { box.focus(); box.select(); } },
    "j": () => step(1),
    "k": () => step(-1),
    "w": () => { const why = find("#why"); if (why) { why.tabIndex = -1; why.focus(); why.scrollIntoView({ block: "center" }); } },
    "h": () => open("hold", "release", "lift"),
    "r": () => open("resume", "release"),
    "p": () => { const button = find("#pause"); if (button) { button.click(); } },
    "?": () => { const help = find("#help"); if (help) { help.showModal(); } },
    "g": () => { going = Date.now(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || kept.get("keys") === "off") { return; }
    // Only an open dialog keeps its keys: one just closed may still hold the focus until the next frame.
    if (event.target.closest("input, select, textarea, dialog[open]")) { return; }
    if (going && Date.now() - going < 1500 && event.key !== "g") {
      going = 0;
      const link = find(`[data-letter="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    const act = KEYS[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) { copy(button); }
    const link = event.target.closest("#help-link"), help = find("#help");
    if (link && help) { event.preventDefault(); help.showModal(); }
  });
  const off = find("[data-keys-off]");
  if (off) {
    off.checked = kept.get("keys") === "off";
    off.addEventListener("change", () => kept.set("keys", off.checked ? "off" : "on"));
  }

  live();
  zone();
  decorate();
})();
