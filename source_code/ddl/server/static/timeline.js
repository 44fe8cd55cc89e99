/** Draws Horovod's timeline of a run, with one row per tensor; it can be zoomed and dragged. */

const ROW = 18, LEFT = 220, TOP = 22, LEAST_S = 1e-5;

export async function show(address, canvas, line) {
  const answer = await fetch(address, { credentials: "same-origin" });
  const read = await answer.json();
  if (!answer.ok) { line.textContent = read.message; return; }
  const spans = read.spans.sort((a, b) => a[2] - b[2] || b[3] - a[3]); // draw enclosing spans first
  const rows = [...new Set(spans.map((span) => span[0]))];
  const end = Math.max(...spans.map((span) => span[3]));
  let from = 0, to = end;
  canvas.style.height = `${TOP + ROW * rows.length + 4}px`;
  const place = new Map(rows.map((name, number) => [name, TOP + ROW * number]));
  const width = () => canvas.clientWidth - LEFT;
  const x = (time) => LEFT + (width() * (time - from)) / (to - from);
  const time = (pixel) => from + ((pixel - LEFT) / width()) * (to - from);

  function draw() {
    const scale = devicePixelRatio;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = "#222";
    for (let tick = 0; tick <= 5; tick++) {
      const at = from + ((to - from) * tick) / 5;
      pen.fillText(`${(1000 * at).toFixed(to - from < 0.02 ? 3 : 0)} ms`, Math.min(x(at), canvas.clientWidth - 52), 12);
    }
    for (const [name, top] of place) pen.fillText(name.length > 34 ? `…${name.slice(-33)}` : name, 4, top + 13);
    for (const [name, phase, start, stop] of spans) {
      if (stop < from || start > to) continue;
      const left = Math.max(x(start), LEFT);
      pen.fillStyle = read.colors[phase];
      pen.fillRect(left, place.get(name) + 2, Math.max(x(stop) - left, 0.5), ROW - 4);
    }
  }
  function look(middle, factor) {
    const span = Math.min(end, Math.max(LEAST_S, (to - from) * factor));
    from = Math.min(Math.max(0, middle - ((middle - from) * span) / (to - from)), end - span);
    to = from + span;
    draw();
  }
  function move(by) {
    const span = to - from;
    from = Math.min(Math.max(0, from + by), end - span);
    to = from + span;
    draw();
  }
  canvas.onwheel = (event) => {
    if (event.shiftKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    look(time(event.offsetX), event.deltaY > 0 ? 1.25 : 0.8);
  };
  canvas.onmousemove = (event) => {
    if (event.buttons) move((-event.movementX / width()) * (to - from));
    const row = rows[Math.floor((event.offsetY - TOP) / ROW)], at = time(event.offsetX);
    const over = spans.filter((span) => span[0] === row && span[2] <= at && at <= span[3]).pop();
    line.textContent = over
      ? `${over[0]}: ${over[1]} for ${(1000 * (over[3] - over[2])).toFixed(3)} ms, from ${(1000 * over[2]).toFixed(3)} ms`
      : `${(1000 * at).toFixed(3)} ms`;
  };
  canvas.onkeydown = (event) => {
    const step = 0.2 * (to - from), middle = (from + to) / 2;
    const act = {
      "+": () => look(middle, 0.8), "-": () => look(middle, 1.25),
      ArrowLeft: () => move(-step), ArrowRight: () => move(step), "0": () => look(middle, Infinity),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  };
  new ResizeObserver(draw).observe(canvas);
  canvas.dataset.drawn = spans.length;
}
