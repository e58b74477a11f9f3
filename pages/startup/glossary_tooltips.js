// Marks the glossary's terms in a page's text, and opens an entry beside its term.
//
// React owns the page's nodes and may fail if other code changes them, so this script changes none. Terms are ranges.
// The CSS Custom Highlight API paints them (`::highlight(terms)` in glossary_tooltips.py), and a click finds them by the
// position of the pointer. For keyboards and screen readers this component has a toolbar with a button for each term,
// which lies over the term while it has the focus.

const WHERE = ".stMain, .stSidebar, .stDialog, [data-testid=stPopoverBody]";
const BLOCK = ".stElementContainer";
// Elements with their own click action, without prose, or of this component.
const NOT_IN =
  "button, a, summary, input, textarea, select, code, pre, style, script, canvas, iframe, math, label:has(input), " +
  "[role=tab], [role=option], [role=slider], [data-baseweb=select], [data-baseweb=tag], .page-title, .katex, [class*=st-key-entry-] h5";
const TITLES = ".infolayer"; // the only part of a chart with prose
const OTHER = ["Epsilon Explorer", "audit log"]; // contain a term, but mean something else
const PLOT = ".js-plotly-plot";
const PAUSE = 200; // milliseconds from a change of the page to the next scan
const NEAR = 3; // margin in pixels around a term in which a touch counts

const lower = form => form.slice(0, 1).toLowerCase() + form.slice(1);
const tidy = text => text.replace(/[\u2010\u2011]/g, "-").replace(/[\s\u2060]+/g, " ");

function matcher(entries) {
  const byForm = new Map(entries.flatMap(entry => entry.forms.map(form => [form, entry])));
  const written = form => {
    const text = form.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "[\\s\\u2060]+").replace(/-/g, "[-\\u2010\\u2011]");
    const first = form[0];
    const begun = form.length > 1 && /\p{Ll}/u.test(first) ? `[${first}${first.toUpperCase()}]${text.slice(1)}` : text;
    return /\p{L}{3}$/u.test(form) ? `${begun}s?` : begun;
  };
  const forms = [...OTHER, ...byForm.keys()].sort((one, other) => other.length - one.length).map(written);
  const any = new RegExp(`(?<![\\p{L}\\p{N}_]|\\p{L}\\.)(?:${forms.join("|")})(?![\\p{L}\\p{N}_]|\\.\\p{L})`, "gu");
  const entryOf = hit => {
    const tries = [hit, hit.replace(/s$/, "")].flatMap(form => [form, lower(form)]);
    return byForm.get(tries.find(form => byForm.has(form)));
  };
  return text =>
    [...text.matchAll(any)]
      .map(hit => ({ from: hit.index, to: hit.index + hit[0].length, entry: entryOf(tidy(hit[0])) }))
      .filter(hit => hit.entry);
}

export default function ({ data, parentElement }) {
  const hitsIn = matcher(data.entries);
  const known = new WeakMap(); // text node → its text at the last scan, and the hits
  let terms = []; // {entry, word, range}, in the order of the page
  let byElement = new Map(); // element or chart → the terms directly in it
  let open = null; // the term whose entry is open
  let due = 0;

  const toolbar = parentElement.querySelector(".words");
  const card = parentElement.querySelector(".card");
  const [title, text, source] = ["h2", ".text", ".source"].map(name => card.querySelector(name));

  const hits = node => {
    const before = known.get(node);
    if (before?.value === node.data) return before.hits;
    const found = hitsIn(node.data);
    known.set(node, { value: node.data, hits: found });
    return found;
  };

  function scan() {
    due = 0;
    [terms, byElement] = [[], new Map()];
    const seen = new Map(); // block → its entries
    for (const root of document.querySelectorAll(WHERE)) {
      const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
      while (walk.nextNode()) collect(walk.currentNode, seen);
    }
    if (window.Highlight) CSS.highlights.set("terms", new Highlight(...terms.map(term => term.range)));
    list();
    if (open && card.matches(":popover-open")) position();
  }

  function collect(node, seen) {
    const found = hits(node);
    const element = node.parentElement;
    if (!found.length || element.closest(NOT_IN) || (element.closest("svg") && !element.closest(TITLES))) return;
    const block = element.closest(BLOCK) ?? element;
    if (!seen.has(block)) seen.set(block, new Set());
    for (const { from, to, entry } of found) {
      const once = to - from === 1 ? node.data[from] : entry; // "noise multiplier σ" has both the term and the symbol
      if (seen.get(block).has(once)) continue;
      seen.get(block).add(once);
      const range = document.createRange();
      range.setStart(node, from);
      range.setEnd(node, to);
      const term = { entry, word: node.data.slice(from, to), range };
      terms.push(term);
      const holder = element.closest(PLOT) ?? element;
      byElement.set(holder, [...(byElement.get(holder) ?? []), term]);
    }
  }

  const boxes = term => [...term.range.getClientRects()].filter(box => box.width && box.right > 0 && box.left < innerWidth);

  function under(event) {
    const holder = event.target.closest?.(PLOT) ?? event.target;
    const inside = box =>
      event.clientX >= box.left - NEAR && event.clientX <= box.right + NEAR &&
      event.clientY >= box.top - NEAR && event.clientY <= box.bottom + NEAR;
    return byElement.get(holder)?.find(term => boxes(term).some(inside));
  }

  // Create one button for each visible term, at its first occurrence.
  function list() {
    const shown = new Map();
    for (const term of terms) if (!shown.has(term.entry) && boxes(term).length) shown.set(term.entry, term);
    const rows = [...shown.values()];
    const same = rows.length === toolbar.children.length && rows.every((term, at) => toolbar.children[at].term.entry === term.entry);
    if (same) rows.forEach((term, at) => (toolbar.children[at].term = term));
    else if (!toolbar.contains(parentElement.getRootNode().activeElement)) {
      const back = Math.max(0, rows.findIndex(term => term.entry === open?.entry)); // focused after Escape in its entry
      toolbar.replaceChildren(...rows.map((term, at) => button(term, at === back)));
    }
  }

  function button(term, stops) {
    const made = document.createElement("button");
    made.type = "button";
    made.term = term;
    made.tabIndex = stops ? 0 : -1; // Tab stops at one button; arrow keys move to the others
    made.setAttribute("aria-label", `${term.entry.term}: definition`);
    made.setAttribute("aria-haspopup", "dialog");
    return made;
  }

  // Lay the button over its term, so that the focus is visible there.
  function over(one) {
    const [box] = boxes(one.term);
    if (!box) return;
    Object.assign(one.style, {
      left: `${box.left - NEAR}px`, top: `${box.top - NEAR}px`,
      width: `${box.width + 2 * NEAR}px`, height: `${box.height + 2 * NEAR}px`,
    });
  }

  function focused(event) {
    const one = event.target;
    for (const each of toolbar.children) each.tabIndex = each === one ? 0 : -1;
    one.term.range.startContainer.parentElement?.scrollIntoView({ block: "nearest" });
    over(one);
  }

  function walked(event) {
    const all = [...toolbar.children];
    const at = all.indexOf(event.target);
    const to = {
      ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    all[(to + all.length) % all.length].focus();
  }

  function show(term) {
    open = term;
    [title.textContent, text.textContent, source.textContent] = [term.entry.term, term.entry.text, term.entry.source];
    if (!card.matches(":popover-open")) card.showPopover();
    position();
  }

  // Put the entry below its term, or above it if there is no room, and always within the window.
  function position() {
    const [box] = boxes(open);
    if (!box) return;
    const { offsetWidth: width, offsetHeight: height } = card;
    const below = box.bottom + 6;
    const top = below + height > innerHeight - 8 && box.top - height - 6 > 8 ? box.top - height - 6 : below;
    card.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
    card.style.top = `${Math.max(8, Math.min(top, innerHeight - height - 8))}px`;
  }

  function close() {
    open = null;
    if (card.matches(":popover-open")) card.hidePopover();
  }

  function clicked(event) {
    if (event.composedPath().includes(parentElement)) return;
    const term = getSelection()?.isCollapsed === false ? null : under(event);
    const again = term && open && term.range.compareBoundaryPoints(Range.START_TO_START, open.range) === 0;
    close();
    if (!term) return;
    event.preventDefault(); // otherwise a click on a label would also reach its widget
    event.stopPropagation();
    if (!again) show(term);
  }

  const hovered = event => document.documentElement.classList.toggle("on-term", Boolean(under(event)));
  const escaped = event => {
    if (event.key !== "Escape" || !open) return;
    const back = toolbar.querySelector("[tabindex='0']");
    if (card.contains(parentElement.getRootNode().activeElement)) back?.focus();
    close();
  };
  const moved = () => {
    if (open) position();
    const one = parentElement.getRootNode().activeElement;
    if (toolbar.contains(one)) over(one);
  };
  const pressed = event => {
    const one = event.target;
    if (open?.entry === one.term.entry) return close();
    show(one.term);
    card.focus();
  };

  const changed = records => {
    const ours = record => !(record.target.parentElement ?? record.target).closest?.("svg, canvas");
    if (!due && records.some(ours)) due = setTimeout(scan, PAUSE);
  };
  const watch = new MutationObserver(changed);
  watch.observe(document.body, { childList: true, characterData: true, subtree: true });
  const heard = [
    [document, "click", clicked, true], [document, "pointermove", hovered, { passive: true }],
    [document, "keydown", escaped, true], [document, "scroll", moved, { capture: true, passive: true }],
    [window, "resize", moved], [document, "toggle", scan, true],
    [toolbar, "focusin", focused], [toolbar, "keydown", walked], [toolbar, "click", pressed],
  ];
  heard.forEach(([where, what, then, how]) => where.addEventListener(what, then, how));
  scan();
  return () => {
    clearTimeout(due);
    watch.disconnect();
    heard.forEach(([where, what, then, how]) => where.removeEventListener(what, then, how));
    window.Highlight && CSS.highlights.delete("terms");
  };
}
