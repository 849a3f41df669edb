// The page's state as a fragment, and back: a scene by its name, or the lanes, numbers and requests themselves.
//
// Requests are runs `[b]AT[xN[-GAP]][*COST]`, times in milliseconds: `9500x10-50` is ten requests of client a, 50 ms apart. Whatever a
// fragment says is brought into bounds: it comes from a link.

import { LANES } from './lanes.js';

/** Each number of the settings: its bounds and its default. */
export const NUMBERS = {
  count: [1, 200, 10],
  period: [1, 3600, 10],
  count2: [0, 200, 0],
  period2: [2, 3601, 60],
  count3: [0, 200, 0],
  period3: [3, 3602, 600],
  burst: [1, 200, 10],
  queue: [0, 200, 10],
  maxWait: [1, 600, 10],
  slow: [1, 200, 5],
};
export const MOST_REQUESTS = 2000;
const LATEST = 24 * 60 * 60 * 1000;

export function bounded(name, text) {
  const [least, most, usual] = NUMBERS[name];
  const number = Math.trunc(Number(text));
  return text === null || text === '' || Number.isNaN(number) ? usual : Math.min(most, Math.max(least, number));
}

/** Makes each further period longer than the one before it. */
export function orderPeriods(settings) {
  settings.period2 = Math.max(settings.period2, settings.period + 1);
  settings.period3 = Math.max(settings.period3, settings.period2 + 1);
}

/** The requests of a text, sorted by time. */
export function parseRequests(text) {
  const requests = [];
  for (const part of text.split(',')) {
    const match = /^(b?)(\d{1,8})(?:x(\d{1,4})(?:-(\d{1,6}))?)?(?:\*(\d{1,3}))?$/.exec(part);
    if (!match) continue;
    const [, client, at, times = 1, gap = 0, cost = 1] = match;
    for (let index = 0; index < Number(times) && requests.length < MOST_REQUESTS; index += 1) {
      const time = Math.min(LATEST, Number(at) + index * Number(gap));
      requests.push({ at: time, client: client || 'a', cost: Math.max(1, Number(cost)) });
    }
  }
  return requests.sort((one, other) => one.at - other.at);
}

/** The text of requests: runs of one client and one cost at equal distances. */
export function spellRequests(requests) {
  const runs = [];
  for (const client of ['a', 'b']) {
    let run = null;
    for (const { at, cost } of requests.filter((request) => request.client === client)) {
      const gap = run && at - run.last;
      const continues = run && run.cost === cost && (run.times === 1 || run.gap === gap);
      if (continues) {
        Object.assign(run, { gap, last: at, times: run.times + 1 });
      } else {
        run = { client, at, last: at, cost, times: 1, gap: 0 };
        runs.push(run);
      }
    }
  }
  return runs
    .map(({ client, at, times, gap, cost }) => {
      const repeats = times === 1 ? '' : `x${times}${gap === 0 ? '' : `-${gap}`}`;
      return `${client === 'b' ? 'b' : ''}${at}${repeats}${cost === 1 ? '' : `*${cost}`}`;
    })
    .join(',');
}

/** The fragment of a page. */
export function spellPage({ lanes, settings, keys, requests, span, now }) {
  const numbers = Object.keys(NUMBERS).map((name) => `${name}=${settings[name]}`);
  const shown = Math.max(span, Math.ceil(now));
  return `#lanes=${lanes.join(',')}&${numbers.join('&')}&keys=${keys}&span=${shown}&requests=${spellRequests(requests)}`;
}

/** What a fragment says; `scenes` are those that it may name. `at` is a time to stop at, or null. */
export function parsePage(fragment, scenes) {
  const words = new URLSearchParams(fragment.replace(/^#/, ''));
  const named = words.get('scene') ?? 'edge';
  const scene = words.has('lanes') ? null : Object.hasOwn(scenes, named) ? named : 'edge';
  const source = scene ? new URLSearchParams({ ...scenes[scene].page, ...Object.fromEntries(words) }) : words;
  const settings = Object.fromEntries(Object.keys(NUMBERS).map((key) => [key, bounded(key, source.get(key))]));
  if (!source.has('burst')) settings.burst = settings.count;
  orderPeriods(settings);
  const lanes = (source.get('lanes') ?? '').split(',').filter((lane) => Object.hasOwn(LANES, lane));
  const span = Math.min(LATEST, Math.max(1000, Number(source.get('span')) || settings.period * 4000));
  const at = words.get('at');
  return {
    scene,
    lanes: lanes.length ? [...new Set(lanes)] : ['exact'],
    settings,
    keys: source.get('keys') === 'shared' ? 'shared' : 'own',
    span,
    requests: parseRequests(source.get('requests') ?? ''),
    at: at === null ? null : at === 'end' ? span : Math.min(span, Math.max(0, Number(at) || 0)),
  };
}
