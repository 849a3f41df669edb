// Makes elements, tables and texts. Text always becomes a text node, so nothing that a client sent can become markup.

/** Makes an element: h('p.quiet', { id: 'x', onclick() {} }, 'text', child). */
export function h(name, props = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const node = document.createElement(tag || 'div');
  if (classes.length) node.className = classes.join(' ');
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key in node && typeof value !== 'string') node[key] = value;
    else node.setAttribute(key, value === true ? '' : value);
  }
  append(node, children);
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

/** Makes an element of SVG. */
export function s(name, props = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
}

/** Replaces the content of a node. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/**
 * Brings the content of a node up to date. What stays the same stays in place, so that a screen reader that reads it is not thrown out each
 * second. Nothing changes while the content is clicked, or has the focus of the keyboard: a link would go away under the hand.
 */
export function renew(node, ...children) {
  if (node.matches(':active') || node.querySelector(':focus-visible')) return;
  const next = node.cloneNode(false);
  append(next, children);
  if (!merge(node, next)) fill(node, [...next.childNodes]);
}

/** Elements with listeners of their own, which belong to what they show. */
const WHOLE = 'a, button, input, select, textarea, form, details';

/** Takes over the children of `next` that differ from those of `node`. False where both do not have the same shape. */
function merge(node, next) {
  if (node.childNodes.length !== next.childNodes.length) return false;
  const pairs = [...node.childNodes].map((old, at) => [old, next.childNodes[at]]);
  for (const [old, now] of pairs) {
    if (old.isEqualNode(now)) continue;
    if (old.nodeType === Node.TEXT_NODE && now.nodeType === Node.TEXT_NODE) old.data = now.data;
    else if (!isSameElement(old, now) || !merge(old, now)) old.replaceWith(now);
  }
  return true;
}

const isSameElement = (old, now) => old.nodeType === Node.ELEMENT_NODE && now.nodeType === Node.ELEMENT_NODE && !old.matches(WHOLE)
  && old.cloneNode(false).isEqualNode(now.cloneNode(false));

/** Writes a text only where it changed, so that a selection and a screen reader are left alone. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Says a text to a screen reader when it has finished what it says. */
export const announce = (text) => say(document.getElementById('said'), text);

/**
 * Makes a table. Columns: { label, number?, wide? }; rows: lists of cells, each a text or a node.
 * On a narrow screen each row becomes a block with the labels beside the cells (`stack`), or stays a line (`line`) without its `wide` columns.
 */
export function table(caption, columns, rows, empty = 'None.', form = 'stack') {
  if (!rows.length) return h('p.quiet', {}, empty);
  const kind = ({ number, wide }) => `${number ? '.number' : ''}${wide ? '.wide' : ''}`;
  const cell = (content, at) => h(`${at === 0 ? 'th' : 'td'}${kind(columns[at])}`,
    { 'data-label': columns[at].label, scope: at === 0 ? 'row' : null }, content);
  return h('div.scroll', {}, h(`table.${form}`, {},
    h('caption.hidden', {}, caption),
    h('thead', {}, h('tr', {}, columns.map((column) => h(`th${kind(column)}`, { scope: 'col' }, column.label)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map(cell))))));
}

/** Makes a list of facts: pairs of a term and a text or node; pairs without a value are left out. */
export function facts(pairs) {
  return h('dl.facts', {}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([term, value]) => [h('dt', {}, term), h('dd', {}, value)]));
}

export const card = (title, ...content) => h('section.card', { 'aria-label': title }, h('h2', {}, title), content);

export const link = (hash, ...content) => h('a', { href: `#/${hash}` }, content);

export const failed = (error) => h('p.error', { role: 'alert' }, error.message ?? String(error));

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** 12,345; 1.2M from a million on. */
export const count = (n) => (Math.abs(n) >= 1e6 ? compact : whole).format(n ?? 0);

/** A number a second. */
export const perSecond = (n) => (n >= 1000 ? compact : n >= 10 ? whole : tenths).format(n ?? 0);

/** 1.2 ms, 48 ms, 2.5 s. */
export const millis = (n) => (n === null || n === undefined ? '–' : n >= 1000 ? `${perSecond(n / 1000)} s` : `${perSecond(n)} ms`);

/** 1 limit, 2 limits. */
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;

export const percent = (part) => `${(part > 0 && part < 0.1 ? tenths : whole).format(part * 100)} %`;

/** 41 s, 12 min, 3 h, 5 d. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return 'never';
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min']];
  const unit = units.find(([size]) => seconds >= 2 * size);
  return unit ? `${Math.round(seconds / unit[0])} ${unit[1]}` : `${tenths.format(seconds)} s`;
}

/** The local time of day, with the date where it is another day. */
export function clock(text) {
  const at = new Date(text);
  const day = at.toDateString() === new Date().toDateString() ? '' : `${at.toLocaleDateString('en-CA')} `;
  return day + at.toLocaleTimeString('en-GB');
}

/** A time with its distance from now. */
export function when(text) {
  const seconds = (Date.now() - new Date(text)) / 1000;
  const distance = seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  return h('time', { datetime: text, title: text }, `${clock(text)} (${distance})`);
}
