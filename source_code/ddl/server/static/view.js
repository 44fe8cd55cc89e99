/** Keeps the panels of runs on this page up to date, from what the server knows, and makes their buttons and links work. */

const EVERY_MS = 1000;
const PATIENCE = 5; // answers that may be missed before a panel says so
const LAST_MS = 3000; // the kernel that launched a run shows its end itself, where it still can

const address = (path) => new URL(path, import.meta.url);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Follow every run of the page that is not followed yet. */
export function follow() {
  for (const panel of document.querySelectorAll(".ddl-run:not([data-followed])")) watch(panel);
  for (const link of document.querySelectorAll("a[data-page]:not([href])")) {
    link.href = address(`../${link.dataset.page}`);
    link.target = "_blank";
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
  panel.addEventListener("click", ({ target }) => {
    if ("all" in target.dataset) press(`${run}/stop?all`, target, "Stopping…");
  });
  for (let missed = 0; ; await wait(EVERY_MS)) {
    if (!panel.isConnected) continue; // scrolled away: JupyterLab keeps it aside
    const answer = await ask(`${run}/state`);
    if (answer.error) {
      if (++missed === PATIENCE) say(panel, `This panel is not updated: ${answer.error}`);
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

/** Replace what has changed. A panel that an older release saved lacks parts. */
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

/** Ask for what a button says; it can be pressed once, unless `again`. */
async function press(path, button, doing, again = false) {
  const label = button.textContent;
  button.disabled = true;
  button.textContent = doing;
  const answer = await ask(path, { method: "POST" });
  if (answer.error || again) {
    button.disabled = false;
    button.textContent = label;
  }
  if (answer.error) say(button.closest(".ddl-run"), `“${label}” was not possible: ${answer.error}`);
}

/** Return the server's answer; its `error` says what went wrong. */
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
