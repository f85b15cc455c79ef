"use strict";
// Shows what belongs to the device and the model that are chosen. Without it, the page has all of them below each other.
(() => {
  const data = JSON.parse(document.getElementById("costs").textContent);
  const device = document.getElementById("device");
  const model = document.getElementById("model");
  let wanted = model.value;

  // The model that is wanted, where it has an answer on a device; else the one that is first there.
  const modelOn = (number) => (wanted in data.cells[number] ? wanted : data.first[number]);

  const showViews = (number, name) => {
    for (const view of document.querySelectorAll(".view")) {
      const here = view.dataset.device === number || view.classList.contains("everywhere");
      const asked = view.dataset.model ?? modelOn(view.dataset.device);
      view.hidden = !(here && asked === modelOn(view.dataset.device));
    }
    for (const row of document.querySelectorAll("[data-row]")) {
      row.toggleAttribute("aria-current", row.dataset.row === name);
    }
  };

  const showCosts = (cells) => {
    for (const row of document.querySelectorAll("#source [data-line]")) {
      const [seconds, time, share, bar, parts] = cells[row.dataset.line] ?? ["", "", "", 0, ""];
      const cell = (name) => row.querySelector(name);
      cell(".time").textContent = time;
      cell(".share").textContent = share;
      cell(".parts").textContent = parts;
      cell(".time").dataset.sort = cell(".share").dataset.sort = seconds;
      cell(".share").classList.toggle("below", seconds < 0);
      cell(".share").style.setProperty("--bar", `${bar}%`);
      cell(".share").title = parts && `${time}: ${parts}`;
      row.hidden = row.classList.contains("other") && time === "";
    }
    // By the column that was chosen, if any was.
    sortSortable(document.getElementById("source"));
  };

  // Whoever sorts the table of one device or model means those of the others, too.
  let isFollowing = false;
  const sortAlike = (table) => {
    if (isFollowing || !table.dataset.alike) return;
    const chosen = table.tHead.querySelector("th[aria-sort]");
    isFollowing = true;
    for (const other of document.querySelectorAll(`table[data-alike="${table.dataset.alike}"]`)) {
      if (other === table) continue;
      for (const cell of other.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
      other.tHead.rows[0].cells[chosen.cellIndex].setAttribute("aria-sort", chosen.getAttribute("aria-sort"));
      sortSortable(other);
    }
    isFollowing = false;
  };
  document.addEventListener("sort-end", (event) => sortAlike(event.target));

  const show = () => {
    const name = modelOn(device.value);
    for (const option of model.options) option.disabled = !(option.value in data.cells[device.value]);
    model.value = name;
    showViews(device.value, name);
    showCosts(data.cells[device.value][name]);
  };

  device.addEventListener("change", show);
  model.addEventListener("change", () => {
    wanted = model.value;
    show();
  });
  show();
})();
