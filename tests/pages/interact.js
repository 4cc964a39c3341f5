// Evaluated in an opened page: uses what the page's script adds, as a reader would. Returns faults.
(() => {
const faults = [];
for (const button of document.querySelectorAll('.command button')) button.click();
for (const table of document.querySelectorAll('table.sortable')) {
  const buttons = table.querySelectorAll('thead button');
  const before = [...table.tBodies[0].rows].map(r => r.textContent).sort().join('\n');
  buttons.forEach((button, column) => {
    const numeric = table.tHead.rows[0].cells[column].classList.contains('n');
    for (const order of ['descending', 'ascending']) {
      button.click();
      const head = table.tHead.rows[0].cells[column];
      if (head.getAttribute('aria-sort') !== order) faults.push(`table "${table.caption.textContent}": not sorted ${order}`);
      const values = [...table.tBodies[0].rows].map(r => r.cells[column].dataset.v).filter(v => v !== undefined).map(Number);
      const sign = order === 'ascending' ? 1 : -1;
      if (numeric && values.some((v, i) => i > 0 && (v - values[i - 1]) * sign < 0)) faults.push(`table "${table.caption.textContent}", column ${column}: order is wrong`);
    }
  });
  const after = [...table.tBodies[0].rows].map(r => r.textContent).sort().join('\n');
  if (before !== after) faults.push(`table "${table.caption.textContent}": sorting changed rows`);
}
for (const figure of document.querySelectorAll('figure')) {
  const svg = [...figure.querySelectorAll('svg')].find(s => s.getBoundingClientRect().width > 0);
  const source = figure.querySelector('script.hover');
  const points = source ? JSON.parse(source.textContent).panels.flatMap(p => p.series.flatMap(s => s.points)) : [];
  if (!points.length) continue;
  const box = svg.getBoundingClientRect();
  const name = svg.querySelector('title').textContent;
  svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width / 2, clientY: box.top + 40}));
  const tip = figure.querySelector('.tip');
  if (!tip || !/\d/.test(tip.textContent)) faults.push(`chart "${name}": no values under the pointer`);
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) faults.push(`chart "${name}": the values overflow`);
  svg.dispatchEvent(new PointerEvent('pointerleave'));
  if (figure.querySelector('.tip')) faults.push(`chart "${name}": the values stay`);
  svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'End'}));
  svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}));
  if (!figure.querySelector('.tip')) faults.push(`chart "${name}": arrow keys show nothing`);
  svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
  for (const button of figure.querySelectorAll('.legend button')) {
    button.click();
    if (button.getAttribute('aria-pressed') !== 'false' || !svg.querySelector('.series.off')) faults.push(`chart "${name}": a name does not switch its line`);
    button.click();
    if (svg.querySelector('.series.off')) faults.push(`chart "${name}": a line stays off`);
  }
}
return faults;
})()
