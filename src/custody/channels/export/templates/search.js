"use strict";
// Searches lists of words that are loaded one after the other, as scripts: a page opened from a disk may load
// nothing else. Every word must occur, in any order. "#m=ID" goes to the page of that message.
(() => {
  const form = document.getElementById("search");
  const firsts = JSON.parse(form.dataset.firsts).map(BigInt);
  const count = Number(form.dataset.pages);
  const state = document.getElementById("state");
  const hits = document.getElementById("hits");
  const most = 200;
  const lists = [];
  let waiting = null;

  const file = (number) => `page-${String(number).padStart(5, "0")}.html`;

  window.custodyWords = (number, rows) => {
    lists[number] = rows.map(([id, at, author, text]) => ({ id, at, author, text, low: `${author} ${text}`.toLowerCase() }));
  };

  const load = (number) => new Promise((done) => {
    if (lists[number]) return done();
    const script = document.createElement("script");
    script.src = `words-${String(number).padStart(5, "0")}.js`;
    script.onload = script.onerror = done;
    document.head.append(script);
  });

  const show = (number, row) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${file(number)}#m${row.id}`;
    link.textContent = `${row.at} ${row.author}`;
    const text = document.createElement("p");
    text.className = "text";
    text.textContent = row.text.slice(0, 300);
    item.append(link, text);
    hits.append(item);
  };

  const search = async (words) => {
    const mine = (waiting = {});
    hits.replaceChildren();
    let found = 0;
    for (let number = 1; number <= count && words.length; number += 1) {
      await load(number);
      if (waiting !== mine) return;
      for (const row of lists[number] || []) {
        if (words.every((word) => row.low.includes(word))) {
          found += 1;
          if (found <= most) show(number, row);
        }
      }
      state.textContent = `${found} found${number < count ? `, ${number} of ${count} pages searched` : ""}`;
    }
    if (!words.length) state.textContent = "";
  };

  const go = () => {
    const match = /^#m=(\d+)$/.exec(location.hash);
    if (!match) return;
    const wanted = BigInt(match[1]);
    let number = 0;
    while (number < firsts.length && firsts[number] <= wanted) number += 1;
    if (number) location.replace(`${file(number)}#m${wanted}`);
  };

  let pause = 0;
  document.getElementById("words").addEventListener("input", (event) => {
    clearTimeout(pause);
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    pause = setTimeout(() => search(words), 150);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", go);
  go();
})();
