// Shows the view that the address names, follows the stream, and asks for the token where one is needed.

import { forgetToken, keepToken, mayAct, noteActions, operatorName, read, token, whyReadOnly } from './access.js';
import { failed, fill, h, say } from './dom.js';
import { showConnection, showProblems } from './headline.js';
import { Series } from './series.js';
import { follow } from './stream.js';
import configuration from './views/configuration.js';
import explain from './views/explain.js';
import keys from './views/keys.js';
import limit from './views/limit.js';
import limits from './views/limits.js';
import overview from './views/overview.js';
import rejections from './views/rejections.js';
import rules from './views/rules.js';

const VIEWS = { '': overview, limits, limit, keys, rules, explain, configuration, rejections };
/** The entry of the navigation of views that have none. */
const PARENT = { limit: 'limits' };

const $ = (id) => document.getElementById(id);
const series = new Series();
let view = null;
let denied = false;
/** The time of the latest event. */
let heard = null;

/** The view of an address such as #/limit/otp?key=1a2b: its name, the other segments, the parameters. */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s, 2);
  const [name, ...rest] = path.split('/').map(decodeURIComponent);
  return { name: VIEWS[name] ? name : '', rest, query: new URLSearchParams(query ?? '') };
}

/** Scrolls a row so far that an item of it is seen. `scrollIntoView` would make the item the one from which the tabulator key goes on. */
function scrollWithin(row, item) {
  const [inside, outside] = [item.getBoundingClientRect(), row.getBoundingClientRect()];
  row.scrollLeft += Math.min(0, inside.left - outside.left) + Math.max(0, inside.right - outside.right);
}

function show(focus) {
  view?.close?.();
  const { name, rest, query } = address();
  for (const item of document.querySelectorAll('#nav a')) {
    const own = item.getAttribute('href').slice(2) === (PARENT[name] ?? name);
    if (own) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
    if (own) scrollWithin(item.closest('nav'), item);
  }
  view = VIEWS[name]({ series, rest, query });
  document.title = `${view.title} · Sluicegate`;
  fill($('main'), view.node);
  view.update?.('all');
  if (focus) {
    $('main').focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function askForToken(error) {
  denied = true;
  view?.close?.();
  view = null;
  document.title = 'Token · Sluicegate';
  const field = h('input', { type: 'password', name: 'token', autocomplete: 'off', required: true, spellcheck: 'false' });
  const form = h('form', {
    role: 'none',
    onsubmit(event) {
      event.preventDefault();
      keepToken(field.value);
      denied = false;
      fill($('main'), h('p.quiet', {}, 'Connecting.'));
      stream.restart();
    },
  }, h('label', {}, 'Token', field), h('div.row', {}, h('button.main', { type: 'submit' }, 'Open')));
  fill($('main'), h('section.card', { 'aria-label': 'Token' }, h('h1', {}, 'This gateway asks for a token'),
    h('p', {}, 'It is one of the tokens in the file that ', h('code', {}, '[admin] token_file'), ' names. This tab keeps it until it is closed, and sends it in ',
      h('code', {}, 'Authorization'), '.'), token() !== null && failed({ message: `The gateway does not take this token: ${error.message}` }), form));
  field.focus();
}

const STATES = {
  connecting: ['connecting', 'warn'], live: ['live', 'good'], waiting: ['reconnecting', 'bad'], denied: ['token needed', 'warn'], hidden: ['paused', 'warn'],
};

function noteState(state, error) {
  const [text, kind] = STATES[state];
  const pill = $('live');
  say(pill, text);
  pill.className = `pill ${kind}`;
  pill.title = error?.message ?? '';
  $('forget').hidden = token() === null;
  $('forget').title = operatorName() === null ? '' : `The token ${operatorName()}`;
  if (state === 'live') series.restart();
  if (state !== 'live') showConnection(false, state === 'denied' ? null : heard);
  if (state === 'denied') askForToken(error);
}

function noteEvent(name, value) {
  if (name === 'end') {
    $('live').title = value.why;
    return;
  }
  heard = new Date();
  showConnection(true, heard);
  series.take(name, value);
  // A mark may have been among the events that were lost.
  if (name === 'dropped') read('history').then((all) => series.take('history', all), () => {});
  if (name === 'problems') showProblems(value);
  if (name === 'overview') {
    noteActions(value.actions);
    $('notice').hidden = mayAct();
    say($('notice'), whyReadOnly());
  }
  if (denied) return;
  if (series.state && (!view || (name === 'overview' && view.isOutdated?.()))) show(false);
  else view?.update?.(name);
}

addEventListener('hashchange', () => series.state && !denied && show(true));
// The fragment names the view, so the link moves the focus by itself.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  $('main').focus();
});
$('forget').addEventListener('click', () => {
  forgetToken();
  location.reload();
});
const stream = follow(noteEvent, noteState);
addEventListener('pagehide', (event) => event.persisted || stream.stop());
