(() => {
'use strict';
document.documentElement.classList.add('js');
const SVG = 'http://www.w3.org/2000/svg';
const make = (name, text, parent) => {
  const e = document.createElement(name);
  if (text) e.textContent = text;
  if (parent) parent.append(e);
  return e;
};

// Copy buttons: the clipboard needs permission, so the text is selected as well.
for (const box of document.querySelectorAll('.command')) {
  const button = make('button', 'Copy', box);
  button.type = 'button';
  button.addEventListener('click', () => {
    const code = box.querySelector('code');
    getSelection().selectAllChildren(code);
    const done = () => { button.textContent = 'Copied'; };
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, () => {});
    else if (document.execCommand('copy')) done();
  });
}

// Sorting: a button in every head cell; numbers by their exact value, text by its letters.
const valueOf = cell => {
  const exact = cell.dataset.v;
  return exact === undefined ? cell.textContent.trim() : Number(exact);
};
for (const table of document.querySelectorAll('table.sortable')) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const label = head.textContent;
    head.textContent = '';
    const button = make('button', label, head);
    button.type = 'button';
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') === 'descending';
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const rows = [...body.rows];
      rows.sort((a, b) => {
        const x = valueOf(a.cells[column]), y = valueOf(b.cells[column]);
        const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
}

// Charts with lines: names in the legend switch them, the pointer or the arrow keys show exact values.
const near = (points, x) => {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle; else high = middle;
  }
  return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? low : high;
};
for (const figure of document.querySelectorAll('figure')) {
  const off = new Set();
  for (const item of figure.querySelectorAll('.legend li')) {
    const button = make('button');
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    button.append(...item.childNodes);
    item.append(button);
    const name = item.textContent;
    button.addEventListener('click', () => {
      const hide = !off.has(name);
      if (hide) off.add(name); else off.delete(name);
      button.setAttribute('aria-pressed', String(!hide));
      for (const group of figure.querySelectorAll('.series')) {
        if (group.dataset.name === name) group.classList.toggle('off', hide);
      }
    });
  }
  const source = figure.querySelector('script.hover');
  if (!source) continue;
  const data = JSON.parse(source.textContent);
  for (const svg of figure.querySelectorAll('svg')) {
    const panels = [...svg.querySelectorAll('.panel')].map((group, i) => {
      const [left, top, width, height] = group.dataset.frame.split(',').map(Number);
      const [low, high, log] = group.dataset.x.split(',').map(Number);
      [...group.querySelectorAll('.series')].forEach(s => {
        s.dataset.name = data.panels[i].series[Number(s.dataset.series)].name;
      });
      return {left, top, width, height, low, high, log};
    });
    if (!panels.length) continue;
    const xs = [...new Set(data.panels.flatMap(p => p.series.flatMap(s => s.points.map(q => q[0]))))].sort((a, b) => a - b);
    if (!xs.length) continue;
    const first = panels[0], last = panels[panels.length - 1];
    const toX = px => {
      const share = (px - first.left) / first.width;
      return first.log ? first.low * Math.pow(first.high / first.low, share) : first.low + share * (first.high - first.low);
    };
    const toPx = x => first.left + first.width * (first.log ? Math.log(x / first.low) / Math.log(first.high / first.low) : (x - first.low) / (first.high - first.low));
    let at = -1, cursor = null, tip = null;
    const hide = () => {
      if (cursor) cursor.remove();
      if (tip) tip.remove();
      cursor = tip = null;
    };
    const show = index => {
      hide();
      at = Math.max(0, Math.min(xs.length - 1, index));
      const x = xs[at], px = toPx(x);
      cursor = document.createElementNS(SVG, 'line');
      cursor.setAttribute('class', 'cursor');
      for (const [k, v] of Object.entries({x1: px, x2: px, y1: first.top, y2: last.top + last.height})) cursor.setAttribute(k, v);
      svg.append(cursor);
      tip = make('div', '', figure);
      tip.className = 'tip';
      tip.setAttribute('role', 'status');
      tip.style.left = '0';
      make('b', data.x + ': ' + x, tip);
      const table = make('table', '', tip);
      for (const panel of data.panels) {
        for (const series of panel.series) {
          if (!series.points.length || off.has(series.name)) continue;
          const p = series.points[near(series.points, x)];
          const row = make('tr', '', table);
          make('td', series.name || panel.y, row);
          make('td', p.length > 2 ? p[1] + ' (' + p[2] + ' to ' + p[3] + ')' : String(p[1]), row);
        }
      }
      const box = svg.getBoundingClientRect(), frame = figure.getBoundingClientRect();
      const scale = box.width / svg.viewBox.baseVal.width;
      const want = box.left - frame.left + px * scale + 12;
      const room = frame.width - tip.offsetWidth;
      tip.style.left = Math.max(0, Math.min(room, want > room ? want - tip.offsetWidth - 24 : want)) + 'px';
      tip.style.top = box.top - frame.top + first.top * scale + 8 + 'px';
    };
    svg.addEventListener('pointermove', e => {
      const box = svg.getBoundingClientRect();
      const x = toX((e.clientX - box.left) * svg.viewBox.baseVal.width / box.width);
      show(near(xs.map(v => [v]), x));
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('blur', hide);
    svg.setAttribute('tabindex', '0');
    svg.addEventListener('focus', () => { if (svg.matches(':focus-visible')) show(at < 0 ? xs.length - 1 : at); });
    svg.addEventListener('keydown', e => {
      const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -xs.length, End: xs.length}[e.key];
      if (e.key === 'Escape') hide();
      if (!step) return;
      e.preventDefault();
      show(at + step);
    });
  }
}
})();
