// Two copies of a letter with the names that taggers find, and F1, at the ε that the user drags.
// All values are data of published runs; between two of them the picture interpolates linearly in log ε.

const HEIGHT = 230, SIDE = 9, TOP = 18, BOTTOM = 40;  // SIDE: half of the slider's thumb, so that both line up
const LEAST = 0.09, MOST = 8, LAST = 0.88;  // ε at both ends of the axis, and the axis's share of the slider
const STEPS = 1000;
const SVG = "http://www.w3.org/2000/svg";

const element = (name, attributes = {}, text = "") => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};

// ε of a position of the slider, 0 to 1; the right end is "without noise".
export const epsilonAt = place => (place >= (1 + LAST) / 2 ? Infinity : LEAST * (MOST / LEAST) ** Math.min(1, place / LAST));
const placeOf = epsilon => (epsilon === Infinity ? 1 : (LAST * Math.log(epsilon / LEAST)) / Math.log(MOST / LEAST));
const across = (place, width) => SIDE + place * (width - 2 * SIDE);
const down = f1 => TOP + (1 - f1) * (HEIGHT - TOP - BOTTOM);

// F1, and 1 or 0 for each name that is found or not, at some ε; in between, the name fades.
export function at(points, epsilon) {
  const last = points.at(-1);
  if (epsilon === Infinity) return last;
  const finite = points.filter(point => point.epsilon !== Infinity);
  const above = finite.findIndex(point => point.epsilon >= epsilon);
  if (above === 0) return finite[0];
  if (above < 0) return finite.at(-1);
  const [low, high] = [finite[above - 1], finite[above]];
  const share = Math.log(epsilon / low.epsilon) / Math.log(high.epsilon / low.epsilon);
  const between = (a, b) => a + share * (b - a);
  return { f1: between(low.f1, high.f1), found: low.found.map((value, n) => between(value, high.found[n])) };
}

const text = epsilon => (epsilon === Infinity ? "∞ (no noise)" : epsilon.toPrecision(epsilon < 0.1 ? 1 : 2));

function letter(container, data, series) {
  const card = document.createElement("article");
  card.innerHTML = "<h3></h3><p class='result'></p><p class='text'></p>";
  card.querySelector("h3").textContent = series.title;
  const body = card.querySelector(".text"), marks = [];
  let end = 0;
  for (const name of data.names) {
    body.append(data.text.slice(end, name.start));
    const mark = document.createElement("mark");
    mark.textContent = data.text.slice(name.start, name.end);
    mark.style.setProperty("--colour", name.colour);
    body.append(mark);
    marks.push(mark);
    end = name.end;
  }
  body.append(data.text.slice(end));
  container.append(card);
  return { marks, result: card.querySelector(".result") };
}

// Draw the chart for a width in pixels; return the elements that move.
function chart(svg, data, width) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  for (const f1 of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    svg.append(element("line", { class: "grid", x1: 0, x2: width, y1: down(f1), y2: down(f1) }));
    svg.append(element("text", { x: 0, y: down(f1) - 3 }, f1 === 1 ? "F1 = 1.0" : f1.toFixed(1)));
  }
  for (const epsilon of [0.1, 0.3, 1, 3, 8, Infinity]) {
    const label = { x: across(placeOf(epsilon), width), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" };
    svg.append(element("text", label, epsilon === Infinity ? "∞" : epsilon));
  }
  const axis = { x: width / 2, y: HEIGHT - 6, "text-anchor": "middle" };
  svg.append(element("text", axis, "← more privacy    ε    less privacy →"));
  const now = element("line", { class: "now", y1: TOP, y2: HEIGHT - BOTTOM });
  const dots = data.series.map(series => {
    const finite = series.points.filter(point => point.epsilon !== Infinity);
    const places = finite.map(point => `${across(placeOf(point.epsilon), width)},${down(point.f1)}`).join(" ");
    svg.append(element("polyline", { class: "line", points: places, stroke: series.colour, "stroke-dasharray": series.dash }));
    for (const point of series.points) {
      const place = { cx: across(placeOf(point.epsilon), width), cy: down(point.f1), r: 3, fill: series.colour };
      svg.append(element("circle", place));
    }
    const label = { class: "label", x: across(LAST, width) - 4, y: down(finite.at(-1).f1) - 9, "text-anchor": "end" };
    svg.append(element("text", label, series.short));
    return element("circle", { class: "dot", r: 7, fill: series.colour });
  });
  svg.append(now, ...dots);
  return { now, dots };
}

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".picture");
  if (root.drawn) return;
  root.drawn = true;
  for (const series of data.series) for (const point of series.points) point.epsilon ??= Infinity;
  const letters = data.series.map(series => letter(root.querySelector(".letters"), data, series));
  const svg = root.querySelector("svg"), slider = root.querySelector("input"), said = root.querySelector("output");
  let width, now, dots;

  function draw() {
    const place = slider.value / STEPS, epsilon = epsilonAt(place);
    const x = across(epsilon === Infinity ? 1 : place, width);
    now.setAttribute("x1", x);
    now.setAttribute("x2", x);
    data.series.forEach((series, n) => {
      const { f1, found } = at(series.points, epsilon);
      dots[n].setAttribute("cx", x);
      dots[n].setAttribute("cy", down(f1));
      letters[n].marks.forEach((mark, number) => {
        mark.style.setProperty("--found", `${Math.round(100 * found[number])}%`);
        mark.classList.toggle("missed", found[number] < 0.5);
      });
      const number = Math.round(found.reduce((sum, share) => sum + share, 0));
      letters[n].result.textContent = `F1 ${f1.toFixed(2)}. Finds ${number} of ${found.length} names here.`;
    });
    said.textContent = `ε = ${text(epsilon)}`;
    slider.setAttribute("aria-valuetext", said.textContent);
  }

  slider.addEventListener("input", draw);
  const follow = event => {
    const share = (event.clientX - svg.getBoundingClientRect().left - SIDE) / (width - 2 * SIDE);
    slider.value = Math.round(STEPS * Math.min(1, Math.max(0, share)));
    draw();
  };
  svg.addEventListener("pointerdown", event => { svg.setPointerCapture(event.pointerId); follow(event); });
  svg.addEventListener("pointermove", event => { if (event.buttons) follow(event); });
  slider.value = Math.round(STEPS * placeOf(data.start));
  new ResizeObserver(() => {
    if (!svg.clientWidth || svg.clientWidth === width) return;
    width = svg.clientWidth;
    ({ now, dots } = chart(svg, data, width));
    draw();
  }).observe(svg);
}
