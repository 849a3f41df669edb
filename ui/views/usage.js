// The slider: "at N per P this many keys would have been hit", over the largest use of each key that the gateway saw lately.

import { read } from '../access.js';
import { histogram } from '../chart.js';
import { clock, count, failed, fill, h, percent, plural, s, say } from '../dom.js';

const BARS = 40;
const BUCKETS = ['gcra', 'token-bucket', 'leaky-bucket'];

/** Keys whose largest use is more than `limit`. */
export const hit = (peaks, limit) => peaks.reduce((sum, peak) => sum + (peak.used > limit ? peak.keys : 0), 0);

/** Groups peaks into at most so many bars. */
export function bars(peaks, most) {
  const width = Math.max(1, Math.ceil(most / BARS));
  const made = Array.from({ length: Math.ceil(most / width) }, (_, at) => ({ from: at * width + 1, to: (at + 1) * width, keys: 0 }));
  for (const { used, keys } of peaks) {
    const bar = made[Math.ceil(used / width) - 1];
    if (bar) bar.keys += keys;
  }
  return made;
}

const perOf = (rate) => rate.rate.replace(/^\S+ per /, '');
const windowOf = (rate) => perOf(rate) + (rate.shadow ? ', in shadow' : '');

const drained = ({ unseen }) => (unseen ? `It drains between two looks: a key may have used up to ${count(unseen)} more than is shown.` : '');

/** How many keys are estimated, and how well. */
const estimated = (rate) => (rate.sampled && rate.complete_above
  ? `Keys that used more than ${count(rate.complete_above)} are counted one by one, the others estimated: all keys within ${count(rate.keys_error)}.` : '');

/** What is not known of keys that shared counters. */
const shared = ({ overflow, shared_keys }) => (overflow
  ? `The table was full ${overflow.active ? `since ${clock(overflow.since)}` : `from ${clock(overflow.since)} to ${clock(overflow.until)}`}, so new keys shared counters: what ${plural(shared_keys, 'such key')} used is not known, and keys without a slot are not counted.` : '');

const banned = (rate) => (rate.banned ? `${plural(rate.banned, 'key')} ${rate.banned === 1 ? 'is' : 'are'} banned now.` : '');

/** The sentences for a number: what it would have hit, and what the counts cannot say. */
export function sentences(rate, limit) {
  const of = hit(rate.peaks, limit);
  const share = (part) => (rate.keys ? ` of ${count(rate.keys)} (${percent(part / rate.keys)})` : '');
  const capped = hit(rate.peaks, rate.limit - 1);
  const about = (n) => (rate.sampled && n < rate.complete_above ? 'about ' : '');
  const keys = (n) => plural(n, 'key');
  // Of a bucket the number is what it holds, at its rate.
  const at = (n) => (rate.bucket ? `a bucket of ${count(n)} at ${rate.rate}` : `${count(n)} per ${perOf(rate)}`);
  const whose = rate.shadow ? "shadow's" : "today's";
  if (limit < rate.limit) return [`At ${at(limit)}, ${about(limit)}${keys(of)}${share(of)} would have been hit.`, drained(rate)];
  const unknown = capped
    ? `${about(rate.limit - 1)}${keys(capped)} reached ${whose} ${count(rate.limit)} and may have wanted more; the counters do not say how much.`
    : 'No key has reached it lately.';
  if (limit > rate.limit) return [`At ${at(limit)}, no more keys than today would be hit: at most ${keys(capped)}.`, unknown];
  return [`At ${whose} ${at(limit).replace(/^a /, '')}, at most ${keys(capped)}${share(capped)} could be hit.`, unknown];
}

export function usage(base) {
  const node = h('div', {}, h('p.quiet', {}, 'Reading the usage.'));
  const svg = s('svg', { viewBox: '0 0 600 160', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const first = h('p.verdict', { 'aria-live': 'polite' });
  const second = h('p.small.quiet');
  const range = h('input', { type: 'range', min: '1', oninput: draw });
  const number = h('input', { type: 'number', min: '1', oninput() { range.value = number.value; draw(); } });
  const period = h('select', { oninput() { choose(); } });
  const right = h('span');
  const form = h('form', { 'aria-label': 'Another number for a window', onsubmit: (event) => event.preventDefault() },
    h('div.row', {}, h('label.narrow', {}, 'Window', period), h('label.narrow', {}, 'Number', number), h('label', {}, 'Number, as a slider', range)));
  let rates = [];
  let rate = null;

  async function refresh() {
    try {
      const page = await read(`${base}/usage`);
      rates = [...page.rates, ...page.shadow_rates.map((one) => ({ ...one, shadow: true }))];
      for (const one of rates) {
        one.bucket = BUCKETS.includes(page.algorithm);
        one.banned = page.banned_keys;
        one.overflow = page.overflow;
      }
    } catch (error) {
      fill(node, failed(error));
      return;
    }
    const chosen = period.value;
    fill(period, rates.map((one) => h('option', {}, windowOf(one))));
    if (rates.some((one) => windowOf(one) === chosen)) period.value = chosen;
    const kept = rate && number.value;
    choose();
    if (kept && Number(kept) <= Number(range.max)) range.value = kept;
    if (!node.contains(form)) fill(node, first, second, h('figure.chart', {}, svg, h('div.axis', { 'aria-hidden': 'true' }, h('span', {}, '1'), right),
      h('figcaption.small.quiet', {}, 'Keys by their largest use in one window. The height is by the logarithm, so that few keys are seen beside many.')), form);
    draw();
  }

  function choose() {
    rate = rates.find((one) => windowOf(one) === period.value) ?? rates[0];
    range.max = String(Math.max(2 * rate.limit, ...rate.peaks.map((peak) => peak.used)));
    number.max = range.max;
    range.value = String(rate.limit);
    draw();
  }

  function draw() {
    if (!rate) return;
    const limit = Number(range.value);
    if (document.activeElement !== number) number.value = range.value;
    const [what, unknown] = sentences(rate, limit);
    say(first, rate.keys ? what : 'No key was seen in this window lately.');
    say(second, [unknown, estimated(rate), shared(rate), banned(rate)].filter(Boolean).join(' '));
    range.setAttribute('aria-valuetext', `${limit} per ${period.value}: ${what}`);
    say(right, range.max);
    histogram(svg, bars(rate.peaks, Number(range.max)), limit);
  }

  return { node, refresh };
}
