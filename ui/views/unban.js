// Lifts many bans, or clears a whole limit. The gateway counts first: a dialog shows what would end, and asks for a reason.

import { change, mayAct, part, whyReadOnly } from '../access.js';
import { card, failed, fill, h, plural } from '../dom.js';
import { DURATION } from './keys.js';

/** Limits that a question names one by one. */
const NAMED = 8;

/** Makes a card with a form; `ask` counts, asks and acts, and returns what was done in words; nothing where the answer was no. */
function formCard(title, label, fields, ask) {
  const said = h('div', { role: 'status' });
  const button = h('button.danger', { type: 'submit', disabled: !mayAct(), title: mayAct() ? '' : whyReadOnly() }, label);
  let isAsking = false;
  return card(title, h('form', {
    role: 'none',
    async onsubmit(event) {
      event.preventDefault();
      if (isAsking) return;
      isAsking = true;
      fill(said);
      try {
        const done = await ask();
        if (done) fill(said, h('p', {}, done));
      } catch (error) {
        fill(said, failed(error));
      }
      isAsking = false;
    },
  }, fields, h('div.row', {}, button)), said);
}

/** Asks with what would end, and does it. The answer to `act`, which is given the reason; null where nothing was done. */
function askForReason(label, lines, act) {
  return new Promise((done) => {
    const reason = h('input', { name: 'reason', maxlength: '200', autocomplete: 'off' });
    const said = h('div');
    let answer = null;
    const [question, ...more] = lines.filter(Boolean);
    const dialog = h('dialog', { 'aria-label': label, 'aria-describedby': 'question', onclose() { dialog.remove(); done(answer); } },
      h('form', {
        role: 'none',
        async onsubmit(event) {
          event.preventDefault();
          try {
            answer = await act(reason.value.trim());
            dialog.close();
          } catch (error) {
            fill(said, failed(error));
          }
        },
      }, h('div', { id: 'question' }, h('p', {}, question), more.length > 0 && h('ul.plain.small', {}, more.map((line) => h('li', {}, line)))),
      h('label', {}, 'Why', reason), said,
      h('div.row', {}, h('button.main', { type: 'submit' }, label), h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

const removed = (rules) => rules.length > 0 && `${plural(rules.length, 'temporary rule')} that ban${rules.length === 1 ? 's' : ''} them will be removed.`;

/** The lines about what a selection found. */
const found = ({ limits, skipped, rules, fleet }) => [
  ...limits.slice(0, NAMED).map(({ limit, bans }) => `${limit}: ${plural(bans, 'ban')}`),
  limits.length > NAMED && `and those of ${plural(limits.length - NAMED, 'more limit')}`,
  ...skipped.slice(0, NAMED).map(({ limit, reason }) => `${limit} is left out: ${reason}`),
  skipped.length > NAMED && `and ${plural(skipped.length - NAMED, 'more limit')} left out`,
  removed(rules),
  fleet && 'Such bans at the other gateways of the store end too; they are not counted.',
];

/** The card that lifts bans by limit, clients and time. */
export function unbanCard(names) {
  const limit = h('select', { name: 'limit' }, h('option', { value: '' }, 'all limits'), names.map((name) => h('option', { value: name }, name)));
  const cidr = h('input', { name: 'cidr', spellcheck: 'false', autocomplete: 'off', placeholder: '203.0.113.0/24' });
  const since = h('input', { name: 'since', autocomplete: 'off', placeholder: '20m', pattern: DURATION });
  const fields = h('div.row', {}, h('label', {}, 'Of limit', limit), h('label', {}, 'Of clients in', cidr), h('label.narrow', {}, 'Begun in the last', since));

  return formCard('Lift many bans', 'Lift bans…', fields, async () => {
    const pairs = [limit, cidr, since].map((field) => [field.name, field.value.trim()]).filter(([, value]) => value);
    if (!pairs.length) throw new Error('Choose a limit, or write whose bans, or since when.');
    const query = pairs.map(([name, value]) => `${name}=${part(value)}`).join('&');
    const page = await change(`bans?${query}&dry_run=true`, 'DELETE');
    if (!page.bans && !page.fleet) return ['No such ban is in force.', ...found(page).filter(Boolean)].join(' ');
    const whose = [limit.value && `of limit ${limit.value}`, cidr.value && `of clients in ${cidr.value.trim()}`, since.value && `begun in the last ${since.value.trim()}`];
    const question = `Lift ${plural(page.bans, 'ban')} ${whose.filter(Boolean).join(', ')}? The counters of these keys are cleared too.`;
    const done = await askForReason(`Lift ${plural(page.bans, 'ban')}`, [question, ...found(page)],
      (reason) => change(`bans?${query}&reason=${part(reason)}`, 'DELETE'));
    return done && `${plural(done.bans, 'ban')} lifted.${done.store_error ? ` Some counters stay in the store: ${done.store_error}.` : ''}`;
  });
}

/** The card that clears all counters and bans of a limit. */
export function clearCard(names) {
  const limit = h('select', { name: 'cleared', required: true }, h('option', { value: '' }, 'choose one'), names.map((name) => h('option', { value: name }, name)));
  return formCard('Clear a whole limit', 'Clear…', h('label', {}, 'Limit', limit), async () => {
    const path = `limits/${part(limit.value)}/clear`;
    const page = await change(`${path}?dry_run=true`, 'POST');
    const question = `Clear limit ${limit.value}: the counters of ${plural(page.keys, 'key')}, and ${plural(page.bans, 'ban')}?`;
    const done = await askForReason(`Clear ${limit.value}`, [question, removed(page.rules)], (reason) => change(`${path}?reason=${part(reason)}`, 'POST'));
    return done && `Limit ${limit.value} is cleared: ${plural(done.keys, 'key')}, ${plural(done.bans, 'ban')}.`;
  });
}
