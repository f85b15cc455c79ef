"use strict";
// Moves through the source lines, and opens and closes all details elements.
(() => {
  const folded = [...document.querySelectorAll("details")];
  const setAll = (isOpen) => {
    for (const each of folded) each.open = isOpen;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "d") setAll(folded.some((each) => !each.open));
    const step = { j: 1, k: -1 }[event.key];
    if (step === undefined) return;
    const lines = [...document.querySelectorAll("#source tr[data-source]")];
    const here = lines.indexOf(document.activeElement);
    lines[Math.min(lines.length - 1, Math.max(0, here + step))]?.focus();
  });

  let wasOpen = [];
  window.addEventListener("beforeprint", () => {
    wasOpen = folded.map((each) => each.open);
    setAll(true);
  });
  window.addEventListener("afterprint", () => folded.forEach((each, number) => (each.open = wasOpen[number])));
})();
