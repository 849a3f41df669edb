// Draws lines of rates over two minutes or an hour, with marks of what happened, as SVG that is drawn anew each second.

import { clock, fill, h, millis, perSecond, s, say, span } from './dom.js';
import { colorOf, nameOf, RANGES } from './history.js';
import { SECONDS } from './series.js';

const WIDTH = 600;
const HEIGHT = 160;

/** Makes a chart of rates { admitted, rejected, failed, shadow }. Labels: names by kind; kinds without a label are left out. */
export const rateChart = (title, labels) => lineChart(title, labels, { axis: (n) => `${perSecond(n)} /s`, short: perSecond, unit: ' /s', spoken: ' a second' });

/** Makes a chart of durations in milliseconds; a second without any is a gap. */
export const durationChart = (title, labels) => lineChart(title, labels, { axis: millis, short: millis, unit: '', spoken: '' });

/** Kinds whose area is not filled. */
const BARE = ['shadow', 'p50', 'p90', 'p99'];

function lineChart(title, labels, { axis, short, unit, spoken }) {
  const kinds = Object.keys(labels);
  const lines = Object.fromEntries(kinds.map((kind) => [kind, s('path', { class: `s-${kind}` })]));
  const areas = kinds.filter((kind) => !BARE.includes(kind)).map((kind) => [kind, s('path', { class: `area s-${kind}` })]);
  const events = s('g');
  const svg = s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' },
    [0, 0.5, 1].map((at) => s('line', { class: 'grid-line', x1: 0, x2: WIDTH, y1: at * HEIGHT, y2: at * HEIGHT })),
    areas.map(([, path]) => path), kinds.map((kind) => lines[kind]), events);
  const top = h('span', {}, '');
  const values = Object.fromEntries(kinds.map((kind) => [kind, h('b', {}, short(0))]));
  const legend = h('ul.legend', {}, kinds.map((kind) => h('li', {}, h(`span.swatch.s-${kind}`, { 'aria-hidden': 'true' }), `${labels[kind]} `,
    values[kind], unit)));
  const at = h('span', {}, 'now');
  const from = h('span', {}, '');
  const event = h('p.event-text', { 'aria-hidden': 'true' });
  const node = h('figure.chart', {}, svg, h('div.axis.top', { 'aria-hidden': 'true' }, top), h('div.axis', { 'aria-hidden': 'true' }, from, at), event, legend);
  let shown = null;
  let marked = [];
  /** The seconds between the pointer and now. */
  let pointed = null;
  svg.addEventListener('pointermove', ({ clientX }) => {
    const box = svg.getBoundingClientRect();
    pointed = Math.max(0, (box.right - clientX) / box.width * shownSpan());
    tell();
  });
  svg.addEventListener('pointerleave', () => { pointed = null; tell(); });

  const shownSpan = () => shown?.span ?? SECONDS - 1;
  const ago = (points, index) => shown.ago?.[index] ?? points.length - 1 - index;

  /** The value of a kind so many seconds ago; none of a rate is 0. */
  function value(kind, seconds) {
    const points = shown[kind];
    const index = shown.ago ? shown.ago.findLastIndex((one) => one >= seconds) : points.length - 1 - Math.round(seconds);
    return points[index] ?? (BARE.includes(kind) && kind !== 'shadow' ? null : 0);
  }

  /** Writes the values of the second under the pointer, or of the latest one, and the mark that is near, or the latest. */
  function tell() {
    if (!shown) return;
    for (const kind of kinds) say(values[kind], short(value(kind, pointed ?? 0)));
    say(at, pointed ? `at ${span(Math.round(pointed))} ago` : 'now');
    say(from, `${span(shown.span ?? SECONDS)} ago`);
    const near = pointed === null ? marked[0] : marked.find((mark) => Math.abs(mark.ago - pointed) < shownSpan() / 80);
    say(event, near ? describe(near) : '');
  }

  const x = (seconds) => WIDTH - seconds / shownSpan() * WIDTH;

  return {
    node,
    /** Draws columns of points, one a second, or at the seconds `ago` within `span`; and marks, the latest first. */
    update(series, marks = []) {
      shown = series;
      marked = marks.filter((mark) => mark.ago <= shownSpan());
      const highest = nice(Math.max(1, ...kinds.flatMap((kind) => series[kind])));
      const line = (points) => points.map((value, index) => {
        if (value === null) return '';
        const isFirst = index === 0 || points[index - 1] === null;
        return `${isFirst ? 'M' : 'L'}${x(ago(points, index)).toFixed(1)} ${(HEIGHT - value / highest * HEIGHT).toFixed(1)}`;
      }).join('');
      for (const kind of kinds) lines[kind].setAttribute('d', line(series[kind]));
      for (const [kind, path] of areas) {
        const points = series[kind];
        const [left, right] = [0, points.length - 1].map((index) => x(ago(points, index)).toFixed(1));
        path.setAttribute('d', points.length > 1 ? `${line(points)}L${right} ${HEIGHT}L${left} ${HEIGHT}Z` : '');
      }
      fill(events, marked.map((mark) => s('line', { class: `event ${colorOf(mark)}`, x1: x(mark.ago), x2: x(mark.ago), y1: 0, y2: HEIGHT },
        s('title', {}, describe(mark)))));
      say(top, axis(highest));
      tell();
      const latest = kinds.map((kind) => `${labels[kind]} ${short(value(kind, 0))}${spoken}`);
      const peaks = series.ago ? `; at most ${kinds.map((kind) => `${labels[kind]} ${short(Math.max(0, ...series[kind]))}`).join(', ')}` : '';
      svg.setAttribute('aria-label', `${title}, ${series.ago ? RANGES.hour : RANGES.live}: ${latest.join(', ')}${peaks}`);
    },
  };
}

const describe = (mark) => `${clock(mark.at)} ${nameOf(mark)}: ${mark.text}`;

/** The next of 1, 2, 5, 10, 20, 50… */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

/** Draws a histogram: bars of { from, to, keys }, and a line at `limit`. Bars above it are hit. */
export function histogram(node, bars, limit) {
  const most = Math.max(1, ...bars.map((bar) => bar.keys));
  const width = WIDTH / Math.max(1, bars.length);
  // Few keys beside many must be seen, so the height is of the logarithm.
  const height = (keys) => (keys > 0 ? 6 + Math.log1p(keys) / Math.log1p(most) * (HEIGHT - 6) : 0);
  const edge = bars.findIndex((bar) => bar.to > limit);
  const x = (edge < 0 ? bars.length : edge) * width;
  fill(node, bars.map((bar, at) => s('rect', {
    class: bar.to > limit ? 'bar hit' : 'bar', x: at * width + width * 0.08, width: width * 0.84, y: HEIGHT - height(bar.keys), height: height(bar.keys),
  }, s('title', {}, `${bar.from === bar.to ? bar.from : `${bar.from} to ${bar.to}`} used: ${bar.keys} keys`))),
  s('line', { class: 'mark', x1: x, x2: x, y1: 0, y2: HEIGHT }));
}
