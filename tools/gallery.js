// The site's pages: light or dark as the reader's system is or as they chose last, and a button that copies a cell.
"use strict";
const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

function isDark() {
  return (localStorage.getItem("theme") || (system.matches ? "dark" : "light")) === "dark";
}

function paint() {
  root.dataset.jpThemeLight = String(!isDark());
  document.getElementById("dark").media = isDark() ? "all" : "not all";
}

function button(text, press) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  made.addEventListener("click", () => press(made));
  return made;
}

paint();
system.addEventListener("change", paint);
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector("nav.course").append(button("Light or dark", () => {
    localStorage.setItem("theme", isDark() ? "light" : "dark");
    paint();
  }));
  for (const cell of document.querySelectorAll(".jp-InputArea-editor")) {
    cell.append(button("Copy", async (made) => {
      await navigator.clipboard.writeText(cell.querySelector("pre").textContent);
      made.textContent = "Copied";
      setTimeout(() => { made.textContent = "Copy"; }, 2000);
    }));
  }
  if (innerWidth < 1100) document.querySelector("nav.contents details")?.removeAttribute("open");
});
