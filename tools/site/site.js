// Tables and diagrams that are wider than the page can be scrolled with the keyboard.
function reachable() {
  for (const box of document.querySelectorAll(".bd-article table, .bd-article p:has(> img)")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
