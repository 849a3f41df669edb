// The page: reads the fragment, lets time pass, sends requests, and shows each lane.
//
// Time is virtual. The frames of the browser say how much of it passes and nothing else, so a page at a given time looks the same on every
// machine. Every change of a number decides all requests again.

import { inWords, make, makeLaneView, showLane } from './lane-view.js';
import { LANES, makeLane, ratesOf } from './lanes.js';
import { drawAxis, tallest } from './picture.js';
import { decideUntil, makeRun, windowEnd } from './run.js';
import { SCENES } from './scenes.js';
import { MOST_REQUESTS, NUMBERS, bounded, orderPeriods, parsePage, spellPage } from './share.js';

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 10];
const STEP = 100;
const HOLD_GAP = 100;
const HOLD_AFTER = 300;
const CLICK_AFTER = 400;
const LABELS = {
  count: 'requests',
  period: 'per seconds',
  count2: 'second rate (0: none)',
  period2: 'per seconds, second rate',
  count3: 'third rate (0: none)',
  period3: 'per seconds, third rate',
  burst: 'burst',
  queue: 'queue',
  maxWait: 'max_wait in seconds',
  slow: 'slowed requests per period',
};

const byId = (id) => document.getElementById(id);
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const axis = byId('axis');
let page;
let runs = [];
let views = [];
let playing = false;
let held = null;
let streamed = null;
let pendingFrame = 0;
let lastFrame = null;
let lastDrawn = 0;

// ── time ──

function setPlaying(plays) {
  playing = plays;
  byId('play').textContent = plays ? 'Pause' : 'Play';
  lastFrame = null;
  cancelAnimationFrame(pendingFrame);
  if (plays) pendingFrame = requestAnimationFrame(frame);
  else remember();
  show();
}

function frame(stamp) {
  const passed = lastFrame === null ? 0 : Math.min(250, stamp - lastFrame);
  lastFrame = stamp;
  const before = page.now;
  let now = before + passed * SPEEDS[byId('speed').value];
  const ends = before < page.span && now >= page.span && streamed === null && held === null;
  if (ends) now = page.span;
  advance(now);
  if (ends) return setPlaying(false);
  // Whoever asked for less motion gets two pictures a second.
  if (!calm.matches || stamp - lastDrawn > 500) {
    lastDrawn = stamp;
    show();
  }
  pendingFrame = requestAnimationFrame(frame);
}

// Lets time pass up to `now`; what is held or streamed sends its requests on the way.
function advance(now) {
  // A full page ends both: `send` sets them to null.
  while (streamed !== null && streamed <= now) {
    const at = streamed;
    streamed += 1000 / numberOf('stream-rate');
    send(Math.round(at));
  }
  while (held !== null && held <= now) {
    const at = held;
    held += HOLD_GAP;
    send(Math.round(at));
  }
  page.now = now;
  for (const run of runs) decideUntil(run, page.requests, now);
}

// ── requests ──

function send(at) {
  if (page.requests.length >= MOST_REQUESTS) {
    streamed = null;
    held = null;
    byId('stream').setAttribute('aria-pressed', 'false');
    say(`A page holds ${MOST_REQUESTS} requests. Clear it to go on.`);
    return;
  }
  page.scene = null;
  const index = page.requests.findLastIndex((request) => request.at <= at);
  page.requests.splice(index + 1, 0, { at, client: byId('client').value, cost: numberOf('cost') });
}

// Sends requests now and says what became of them.
function act(times) {
  const before = runs[0].outcomes.length;
  for (let index = 0; index < times; index += 1) send(Math.ceil(page.now));
  advance(Math.max(page.now, Math.ceil(page.now)));
  say(runs.map((run, index) => inWords(LANES[page.lanes[index]].title, run.outcomes.slice(before))).join('; '));
  remember();
  show();
}

function attackEdge() {
  const times = numberOf('burst-size');
  const length = page.settings.period * 1000;
  const lead = Math.min(500, length / 4);
  let edge = windowEnd(Math.ceil(page.now), length);
  if (edge - page.now < lead) edge += length;
  for (const begin of [edge - lead, edge + lead / 10]) {
    for (let index = 0; index < times; index += 1) send(Math.floor(begin + (index * lead * 0.8) / times));
  }
  page.span = Math.max(page.span, edge + 2 * length);
  say(`${times} requests before ${edge / 1000} s and ${times} after it`);
  setPlaying(!calm.matches);
  if (calm.matches) jump(edge + length);
}

// The number in an input, brought into its bounds.
function numberOf(id) {
  const { value, max } = byId(id);
  return Math.min(Number(max), Math.max(1, Math.trunc(Number(value)) || 1));
}

// ── the page ──

function rebuild() {
  runs = page.lanes.map((lane) => makeRun(makeLane(lane, page.settings), page.keys, page.settings.period));
  advance(page.now);
}

function jump(now) {
  page.now = now;
  if (streamed !== null) streamed = Math.ceil(now);
  rebuild();
  show();
}

function load() {
  page = parsePage(location.hash, SCENES);
  streamed = null;
  held = null;
  byId('stream').setAttribute('aria-pressed', 'false');
  page.now = page.at ?? (calm.matches ? page.span : 0);
  layOut();
  setPlaying(page.at === null && !calm.matches && page.requests.length > 0);
}

// Makes the lanes and the form of the page.
function layOut() {
  views = page.lanes.map((lane) => makeLaneView(lane, LANES[lane]));
  byId('lanes').replaceChildren(...views.map((view) => view.article));
  fillForm();
  rebuild();
  byId('look').textContent = SCENES[page.scene]?.look ?? 'A page of your own: its address holds the numbers and the requests.';
  for (const link of byId('scenes').querySelectorAll('a')) {
    if (link.hash === `#scene=${page.scene}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

// Writes the page into the address, so that the address is what is shared.
function remember() {
  if (page.scene === null) history.replaceState(null, '', spellPage(page));
}

function show() {
  const width = Math.max(200, Math.floor(views[0].graph.clientWidth));
  const from = Math.max(0, page.now - page.span * (page.now > page.span ? 0.9 : 1));
  const view = {
    width,
    from,
    span: page.span,
    now: page.now,
    settings: page.settings,
    client: byId('client').value,
    cost: numberOf('cost'),
    x: (at) => ((at - from) / page.span) * width,
    at: (x) => from + (x / width) * page.span,
  };
  const highest = Math.max(...runs.map((run) => tallest(run, view)));
  const block = Math.min(8, 56 / highest);
  runs.forEach((run, index) => showLane(views[index], run, view, block));
  drawAxis(axis, view);
  const slider = byId('time');
  slider.max = Math.ceil(Math.max(page.span, page.now));
  slider.value = page.now;
  slider.setAttribute('aria-valuetext', `${(page.now / 1000).toFixed(1)} seconds`);
  byId('clock').textContent = `${(page.now / 1000).toFixed(2)} s`;
}

const say = (text) => {
  byId('said').textContent = text;
};

// ── controls ──

// Returns whether a number of the form has an effect now.
function isUsed(name) {
  const rates = ratesOf(page.settings).length;
  // The count of the next rate is shown, so that there can be one.
  const [, number, place] = /^(count|period)(\d?)$/.exec(name) ?? [];
  if (number) return Number(place || 1) <= rates + (number === 'count');
  return (name !== 'burst' || rates === 1) && page.lanes.some((lane) => LANES[lane].numbers?.includes(name));
}

function fillForm() {
  for (const name of Object.keys(NUMBERS)) {
    const input = byId(`number-${name}`);
    input.value = page.settings[name];
    input.parentElement.hidden = !isUsed(name);
  }
  for (const lane of Object.keys(LANES)) byId(`choose-${lane}`).checked = page.lanes.includes(lane);
  byId('keys').value = page.keys;
}

// Takes what the form says and decides everything again.
function readForm() {
  const chosen = Object.keys(LANES).filter((lane) => byId(`choose-${lane}`).checked);
  page.lanes = chosen.length ? chosen : ['exact'];
  for (const name of Object.keys(NUMBERS)) page.settings[name] = bounded(name, byId(`number-${name}`).value);
  orderPeriods(page.settings);
  page.keys = byId('keys').value;
  page.scene = null;
  layOut();
  remember();
  show();
}

function buildControls() {
  byId('scenes').append(
    ...Object.entries(SCENES).map(([name, { title }]) => {
      const link = make('a', { href: `#scene=${name}`, textContent: title });
      link.addEventListener('click', () => location.hash === link.hash && load());
      return link;
    }),
  );
  byId('numbers').append(
    ...Object.entries(NUMBERS).map(([name, [min, max]]) => {
      const input = make('input', { type: 'number', id: `number-${name}`, min, max, required: true });
      return make('label', {}, `${LABELS[name]} `, input);
    }),
  );
  byId('algorithms').append(
    ...Object.entries(LANES).map(([lane, { title }]) =>
      make('label', {}, make('input', { type: 'checkbox', id: `choose-${lane}` }), ` ${title}`),
    ),
  );
  byId('speed').append(...SPEEDS.map((speed, index) => make('option', { value: index, textContent: `${speed}×`, selected: speed === 4 })));
}

function listen() {
  const on = (id, event, call) => byId(id).addEventListener(event, call);
  on('form', 'change', readForm);
  on('form', 'submit', (event) => event.preventDefault());
  on('burst', 'click', () => act(numberOf('burst-size')));
  on('attack', 'click', attackEdge);
  on('skip', 'click', () => {
    page.span = Math.max(page.span, page.now + page.settings.period * 1000);
    advance(page.now + page.settings.period * 1000);
    show();
  });
  on('stream', 'click', () => {
    streamed = streamed === null ? Math.ceil(page.now) : null;
    byId('stream').setAttribute('aria-pressed', String(streamed !== null));
    if (streamed !== null && !playing) setPlaying(true);
    remember();
  });
  on('play', 'click', () => {
    if (!playing && page.scene !== null && page.now >= page.span) jump(0);
    setPlaying(!playing);
  });
  on('step', 'click', () => {
    if (playing) setPlaying(false);
    advance(page.now + STEP);
    show();
  });
  on('again', 'click', () => {
    jump(0);
    setPlaying(!calm.matches);
  });
  on('clear', 'click', () => {
    Object.assign(page, { requests: [], now: 0, scene: null });
    jump(0);
    remember();
    say('No requests.');
  });
  on('time', 'input', () => {
    if (playing) setPlaying(false);
    jump(Number(byId('time').value));
  });
  on('share', 'click', async () => {
    remember();
    try {
      await navigator.clipboard.writeText(location.href);
      say('The link is on the clipboard.');
    } catch {
      say('The address of this page is the link.');
    }
  });
  for (const id of ['client', 'cost']) on(id, 'change', show);
  listenToHit(byId('hit'));
  addEventListener('hashchange', load);
  addEventListener('resize', show);
}

// One request a press; held down, ten a second of virtual time.
function listenToHit(button) {
  let timer = null;
  let touched = -Infinity;
  const press = (event) => {
    touched = event.timeStamp;
    act(1);
    timer = setTimeout(() => {
      held = Math.ceil(page.now) + HOLD_GAP;
      if (!playing) setPlaying(true);
    }, HOLD_AFTER);
  };
  const release = (event) => {
    touched = event.timeStamp;
    clearTimeout(timer);
    if (held !== null) remember();
    held = null;
  };
  const isPress = (event) => event.key === ' ' || event.key === 'Enter';
  button.addEventListener('pointerdown', (event) => event.button === 0 && press(event));
  button.addEventListener('keydown', (event) => isPress(event) && !event.repeat && press(event));
  for (const event of ['pointerup', 'pointerleave', 'pointercancel', 'keyup', 'blur']) button.addEventListener(event, release);
  // Assistive technology clicks without a press; other clicks follow one.
  button.addEventListener('click', (event) => event.timeStamp - touched > CLICK_AFTER && act(1));
}

buildControls();
listen();
// The file of the docs has no gateway to lead back to.
byId('back').hidden = !location.pathname.endsWith('/ui/playground/playground.html');
load();
