"use strict";
(() => {
  const live = document.getElementById("live");
  const source = new EventSource("/page/events" + location.search);
  source.onopen = () => { live.textContent = "live"; };
  source.onerror = () => { live.textContent = "no contact, trying again"; };
  source.onmessage = (event) => {
    const { id, html } = JSON.parse(event.data);
    const region = document.getElementById(id);
    if (!region) return;
    const focused = document.activeElement;
    const held = region.contains(focused) ? focused.id : "";
    const open = new Set([...region.querySelectorAll("details[open]")].map((each) => each.id));
    region.innerHTML = html;
    for (const each of region.querySelectorAll("details")) if (open.has(each.id)) each.open = true;
    if (held) document.getElementById(held)?.focus({ preventScroll: true });
  };
})();
