// All limits: one row each, made once and written to where a number changed, so that a thousand of them cost little.

import { count, h, link, perSecond, percent, say } from '../dom.js';
import { part } from '../access.js';
import { scaledText } from './limit.js';

const COLUMNS = [
  { id: 'name', label: 'Limit' }, { id: 'rates', label: 'Rates' }, { id: 'admitted', label: 'Admitted /s', number: true },
  { id: 'rejected', label: 'Rejected /s', number: true }, { id: 'shadow', label: 'In shadow /s', number: true }, { id: 'all', label: 'Rejected', number: true },
  { id: 'load', label: 'Load', number: true },
];
const REJECTED = ['refused', 'challenged', 'banned', 'concurrency_refused', 'store_unavailable', 'blocked'];

export default function limits({ series }) {
  const rows = new Map();
  const body = h('tbody');
  const shown = h('p.small.quiet', { role: 'status' });
  let order = { id: 'name', down: false };
  const filter = h('input', { type: 'search', placeholder: 'name, key or action', oninput: arrange });
  const heads = COLUMNS.map((column) => h(column.number ? 'th.number' : 'th', { scope: 'col' }, h('button', {
    type: 'button',
    onclick() {
      order = { id: column.id, down: order.id === column.id ? !order.down : column.number };
      arrange();
    },
  }, column.label)));

  function build() {
    rows.clear();
    for (const limit of series.overview.limits) {
      const cells = Object.fromEntries(COLUMNS.slice(2).map(({ id, label }) => [id, h('td.number', { 'data-label': label }, '–')]));
      const node = h('tr', {}, h('th', { scope: 'row', 'data-label': 'Limit' }, h('span', {}, link(`limit/${part(limit.name)}`, limit.name),
        limit.action === 'shadow' && h('span.quiet', {}, ' in shadow'))),
      h('td', { 'data-label': 'Rates' }, `${limit.rates.join(', ')} by ${limit.key}`,
        limit.scaled && h('span.bad', { title: scaledText(limit.scaled) }, ` × ${limit.scaled.factor}, temporary`)), Object.values(cells));
      rows.set(limit.name, { limit, node, cells, values: {}, text: `${limit.name} ${limit.key} ${limit.action}`.toLowerCase() });
    }
    arrange();
  }

  function write() {
    for (const [name, row] of rows) {
      const known = series.limits.get(name);
      const rates = known?.rates;
      const values = {
        admitted: rates?.admitted ?? 0, rejected: rates?.rejected ?? 0, shadow: rates?.shadow ?? 0, all: series.sum(name, REJECTED),
        // A limit that all requests share has one key, and its table is no load.
        load: known?.load && row.limit.capacity > 1 ? known.load.keys / row.limit.capacity : null,
      };
      row.values = values;
      for (const id of ['admitted', 'rejected', 'shadow']) say(row.cells[id], values[id] ? perSecond(values[id]) : '–');
      say(row.cells.all, count(values.all));
      say(row.cells.load, row.limit.capacity === 1 ? '–' : values.load === null ? '…' : percent(values.load) + (known.load.overflow ? ', overflow' : ''));
      row.cells.load.classList.toggle('bad', Boolean(known?.load?.overflow));
      row.cells.rejected.classList.toggle('bad', values.rejected > 0);
    }
  }

  /** Sorts and filters. It happens at a click or a key, so that no row moves under the pointer. */
  function arrange() {
    const wanted = filter.value.trim().toLowerCase();
    const value = (row) => (order.id === 'name' ? row.limit.name : order.id === 'rates' ? row.limit.rates.join() : row.values[order.id] ?? -1);
    const sorted = [...rows.values()].filter((row) => row.text.includes(wanted)).sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return (x < y ? -1 : x > y ? 1 : 0) * (order.down ? -1 : 1);
    });
    body.replaceChildren(...sorted.map((row) => row.node));
    say(shown, `${count(sorted.length)} of ${count(rows.size)} limits`);
    COLUMNS.forEach((column, at) => {
      if (column.id === order.id) heads[at].setAttribute('aria-sort', order.down ? 'descending' : 'ascending');
      else heads[at].removeAttribute('aria-sort');
    });
  }

  return {
    title: 'Limits',
    node: [h('div.head', {}, h('h1', {}, 'Limits'), shown),
      h('section.card', { 'aria-label': 'Limits' }, h('form', { role: 'search', onsubmit: (event) => event.preventDefault() }, h('label', {}, 'Show only', filter)),
        h('div.scroll', {}, h('table.stack', {}, h('caption.hidden', {}, 'All limits; the heads sort'), h('thead', {}, h('tr', {}, heads)), body)))],
    update(name) {
      if (name === 'all' || name === 'overview') build();
      if (name === 'all' || name === 'overview' || name === 'counters') write();
    },
  };
}
