"use strict";
for (const root of document.querySelectorAll(".frontier")) {
  const data = JSON.parse(root.querySelector(".frontier-data").textContent);
  const tip = root.querySelector(".tip");
  const plot = root.querySelector(".plot");
  const choices = root.querySelector(".choices");
  const [metric, utility] = choices.querySelectorAll("select");
  const groups = [...root.querySelectorAll("svg.large .series")].map((series, s) => ({
    join: series.querySelector(".join"),
    points: [...series.querySelectorAll(".point")].map((node, p) => ({ node, point: data[s][p] })),
  }));

  const draw = () => {
    for (const axis of root.querySelectorAll(".axis")) {
      const shown = axis.dataset.x ? axis.dataset.x === metric.value : axis.dataset.y === utility.value;
      shown ? axis.removeAttribute("display") : axis.setAttribute("display", "none");
    }
    for (const { join, points } of groups) {
      const path = [];
      for (const { node, point } of points) {
        const x = point.x[metric.value], y = point.y[utility.value];
        if (!x || !y) {
          node.setAttribute("display", "none");
          node.setAttribute("tabindex", "-1");
          continue;
        }
        node.removeAttribute("display");
        node.setAttribute("tabindex", "0");
        node.style.transform = `translate(${x[0]}px, ${y[0]}px)`;
        node.querySelector(".error").setAttribute("d", `M${x[1] - x[0]},0 H${x[2] - x[0]} M0,${y[1] - y[0]} V${y[2] - y[0]}`);
        path.push(`${x[0]},${y[0]}`);
      }
      join.setAttribute("d", path.length > 1 ? `M${path.join(" L")}` : "");
    }
    tip.hidden = true;
  };

  const show = (node, point) => {
    const lead = document.createElement("strong");
    lead.textContent = point.name;
    const lines = point.details.map(([name, text]) => {
      const line = document.createElement("span");
      for (const part of [name, text]) line.appendChild(document.createElement("b")).textContent = part;
      return line;
    });
    tip.replaceChildren(lead, ...lines);
    tip.hidden = false;
    const box = plot.getBoundingClientRect(), at = node.querySelector(".marker").getBoundingClientRect();
    const left = at.left - box.left + at.width / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.offsetWidth))}px`;
    const above = at.top - box.top - tip.offsetHeight - 8;
    tip.style.top = `${above >= 0 ? above : at.bottom - box.top + 8}px`;
  };

  for (const { points } of groups) {
    for (const { node, point } of points) {
      node.querySelector("title").remove();
      for (const event of ["mouseenter", "focus"]) node.addEventListener(event, () => show(node, point));
      for (const event of ["mouseleave", "blur"]) node.addEventListener(event, () => { tip.hidden = true; });
    }
  }
  root.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  for (const select of [metric, utility]) select.addEventListener("change", draw);
  choices.hidden = false;
  draw();
}
