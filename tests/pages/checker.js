// Evaluated in an opened page: returns a list of sentences, one per fault found.
(() => {
const faults = [];
const say = text => faults.push(text);
const root = document.documentElement;

// Nothing scrolls sideways but tables inside their own box.
for (const e of [root, document.body]) {
  if (e.scrollWidth > e.clientWidth) say(`${e.tagName} overflows: ${e.scrollWidth} > ${e.clientWidth}`);
}

// Texts of a chart lie inside it and not on each other.
const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
let charts = 0;
for (const svg of document.querySelectorAll('svg')) {
  const frame = svg.getBoundingClientRect();
  if (frame.width === 0) continue;
  charts += 1;
  const name = svg.querySelector('title') ? svg.querySelector('title').textContent : '';
  if (!name || !svg.querySelector('desc')) say('a chart has no title or no description');
  const boxes = [...svg.querySelectorAll('text')].map(t => ({box: t.getBoundingClientRect(), text: t.textContent})).filter(b => b.box.width > 0);
  for (const {box, text} of boxes) {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
      say(`chart "${name}": text "${text}" leaves the chart`);
    }
  }
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
    if (overlap(a.box, b.box)) say(`chart "${name}": texts "${a.text}" and "${b.text}" overlap`);
  }));
  for (const bar of svg.querySelectorAll('rect')) {
    const box = bar.getBoundingClientRect();
    if (box.right > frame.right + 2 || box.left < frame.left - 2) say(`chart "${name}": a bar leaves the chart`);
  }
}
const figures = document.querySelectorAll('figure').length;
if (charts !== figures) say(`${figures} figures, but ${charts} visible charts`);

// Figures equal the data block.
const block = document.getElementById('data');
if (!block) {
  say('no data block');
} else {
  const data = JSON.parse(block.textContent);
  for (const e of document.querySelectorAll('data[data-key]')) {
    const key = e.dataset.key;
    const value = key.split('/').slice(1).reduce((at, part) => at === undefined ? at : at[part.replace(/~1/g, '/').replace(/~0/g, '~')], data);
    if (String(value) !== String(Number(e.value)) && String(value) !== e.value) say(`figure ${key}: ${e.value} on the page, ${value} in the data`);
  }
}

// Nothing but what the page module writes.
const allowed = new Set('html head meta title style body header h1 h2 h3 p dl div dt dd pre code button main nav a section figure figcaption ul li span svg desc g path line rect circle text defs pattern script table caption thead tbody tfoot tr th td details summary blockquote footer data b'.split(' '));
for (const e of document.querySelectorAll('*')) {
  if (!allowed.has(e.localName)) say(`element <${e.localName}>`);
  for (const a of e.attributes) {
    if (/^on/i.test(a.name) || /^\s*(javascript|data|https?):/i.test(a.value)) say(`attribute ${a.name}="${a.value}" of <${e.localName}>`);
  }
}
const running = [...document.scripts].filter(s => s.type !== 'application/json');
if (running.length !== 1) say(`${running.length} scripts`);
if (!document.querySelector('meta[http-equiv=Content-Security-Policy]')) say('no content security policy');

// Tables can be read aloud.
for (const table of document.querySelectorAll('main table')) {
  if (!table.caption || !table.caption.textContent.trim()) say('a table has no caption');
  for (const th of table.querySelectorAll('th')) if (!th.scope) say(`head cell "${th.textContent}" has no scope`);
}

// Contrast: 7 for text, 3 for graphics (WCAG 2.1).
const rgb = colour => (colour.match(/[\d.]+/g) || []).map(Number);
const light = colour => {
  const [r, g, b] = rgb(colour).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};
const behind = e => {
  for (let at = e; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    const parts = rgb(colour);
    if (parts.length === 3 || parts[3] > 0) return colour;
  }
  return 'rgb(255, 255, 255)';
};
const seen = new Set();
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('svg') ? e.localName !== 'text' : ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  if (['script', 'style'].includes(e.localName) || e.getClientRects().length === 0) continue;
  const style = getComputedStyle(e);
  const colour = e.closest('svg') ? style.fill : style.color;
  const key = colour + behind(e);
  if (seen.has(key)) continue;
  seen.add(key);
  const found = contrast(colour, behind(e));
  if (found < 7) say(`text <${e.localName} class="${e.getAttribute('class') || ''}">: contrast ${found.toFixed(2)}`);
}
const probe = document.body.appendChild(document.createElement('div'));
for (let i = 0; i < 6; ++i) {
  probe.style.color = `var(--s${i})`;
  const found = contrast(getComputedStyle(probe).color, behind(document.body));
  if (found < 3) say(`series colour ${i}: contrast ${found.toFixed(2)}`);
}
probe.remove();
return faults;
})()
