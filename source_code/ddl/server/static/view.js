/** Updates the panels of runs on this page from the server, and connects their buttons and links. */

const EVERY_MS = 1000;
const PATIENCE = 5; // failed requests before a panel reports it
const NEWER_MS = 5000; // between questions about runs of another tab
const LAST_MS = 3000; // time for the kernel that launched a run to show its end

const address = (path) => new URL(path, import.meta.url);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Follow all runs on the page that are not yet followed. */
export function follow() {
  for (const panel of document.querySelectorAll(".ddl-run:not([data-followed])")) watch(panel);
  for (const link of document.querySelectorAll("a[data-page]:not([href])")) {
    link.href = address(`../${link.dataset.page}`);
    link.target = "_blank";
  }
  if (document.querySelector(".ddl-ended")) lookForNewer();
}

let looking = false;

/** Show runs that another tab of the notebook has launched, below the ends of earlier ones of the same cells. */
async function lookForNewer() {
  if (looking) return;
  for (looking = true; ; await wait(NEWER_MS)) {
    const ended = [...document.querySelectorAll(".ddl-ended:not([data-newer])")];
    if (document.hidden || !ended.length) continue;
    const answer = await ask(`newer/${encodeURIComponent(ended.map((end) => end.dataset.run).join(","))}`);
    for (const end of ended) {
      const html = (answer.found || {})[end.dataset.run];
      if (!html) continue;
      end.dataset.newer = "";
      end.insertAdjacentHTML("beforeend", html);
    }
    follow();
  }
}

async function watch(panel) {
  const run = `runs/${encodeURIComponent(panel.dataset.run)}`;
  const buttons = panel.querySelectorAll(".ddl-stop");
  panel.dataset.followed = "";
  for (const button of buttons) {
    const rank = button.dataset.kill;
    button.onclick = () =>
      rank ? press(`${run}/kill/${rank}`, button, "Killing…", true) : press(`${run}/stop`, button, "Stopping…");
  }
  for (let missed = 0; ; await wait(EVERY_MS)) {
    if (!panel.isConnected) continue; // scrolled out of view: JupyterLab has detached it
    const answer = await ask(`${run}/state`);
    if (answer.error) {
      if (++missed === PATIENCE) say(panel, `This panel cannot be updated: ${answer.error}`);
      continue;
    }
    missed = 0;
    say(panel, "");
    if (answer.over) {
      await wait(LAST_MS);
      panel.outerHTML = answer.html;
      return;
    }
    for (const button of buttons) button.hidden = false;
    for (const [name, html] of Object.entries(answer.parts)) show(panel.querySelector(`[data-part="${name}"]`), html);
  }
}

/** Update a part of a panel if it has changed. */
function show(part, html) {
  if (!part || part.shown === html) return;
  part.shown = html;
  part.innerHTML = html;
}

function say(panel, text) {
  let line = panel.querySelector(".ddl-stale");
  if (!line && text) {
    line = document.createElement("p");
    line.className = "ddl ddl-stale";
    line.setAttribute("role", "alert");
    panel.prepend(line);
  }
  if (line && line.textContent !== text) line.textContent = text;
}

/** Send a button's request; it stays disabled afterward unless `again` is set. */
async function press(path, button, doing, again = false) {
  const label = button.textContent;
  button.disabled = true;
  button.textContent = doing;
  const answer = await ask(path, { method: "POST" });
  if (answer.error || again) {
    button.disabled = false;
    button.textContent = label;
  }
  if (answer.error) say(button.closest(".ddl-run"), `“${label}” failed: ${answer.error}`);
}

/** Return the server's answer, with `error` set if the request failed. */
async function ask(path, options = {}) {
  const token = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/);
  try {
    const answer = await fetch(address(path), {
      credentials: "same-origin",
      headers: token ? { "X-XSRFToken": decodeURIComponent(token[1]) } : {},
      ...options,
    });
    const json = await answer.json();
    return answer.ok ? json : { error: json.message || `the server says ${answer.status}` };
  } catch (error) {
    return { error: `the server does not answer (${error.message})` };
  }
}
