// The clients that are rejected most, in groups. A choice of one leaves its rejections in the tail.

import { hasToken, read } from '../access.js';
import { count, failed, fill, h, percent, plural, renew, span, table } from '../dom.js';

/** The counts are read again at most so often, and only once something was rejected. */
const PAUSE = 5000;

/** The members of an answer, with the name of the group in an event and in words. */
const GROUPS = [
  ['addresses', 'address', 'Address'], ['networks', 'network', 'Network'], ['countries', 'country', 'Country'],
  ['asns', 'asn', 'Autonomous system'], ['user_agents', 'user_agent', 'User agent'],
];

/** Rows of each group. */
const ROWS = 5;

/** Whether a row is there for its rejections, rather than for those of the rows whose place it took. */
const standsOut = (row) => row.requests > row.error;

const WHY_HIDDEN = 'Set [admin] token_file: only who has a token is shown the clients that are rejected most.';

/** The view of the clients; `choose` takes the group of the one that was clicked, its name, and the group in words. */
export function rejectedClients(choose) {
  const shown = h('div', {}, h('p.quiet', {}, 'Reading the counts.'));
  let readAt = 0;
  let isClosed = false;

  function group([member, key, title], page) {
    return table(`Rejected requests by ${title.toLowerCase()}`, [{ label: title }, { label: 'Rejected', number: true }, { label: 'Share', number: true }],
      page[member].filter(standsOut).slice(0, ROWS).map((row) => [
        h('button.link', { type: 'button', 'aria-label': `Show only ${title.toLowerCase()} ${row.name || 'none'}`, onclick: () => choose(key, row.name, title.toLowerCase()) }, row.name || 'none'),
        row.error ? `${count(row.requests)} to ${count(row.requests + row.error)}` : count(row.requests), percent(row.share)]), 'None stands out.', 'line');
  }

  function show(page) {
    if (!page.rejected) {
      fill(shown, h('p.quiet', {}, 'Nothing was rejected in the last minutes.'));
      return;
    }
    renew(shown, h('p.small.quiet', {}, `${plural(page.rejected, 'request')} rejected in the last ${span(page.seconds)}`,
      page.left_out ? `, and ${count(page.left_out)} that were not counted` : '', '. Who has more than 0.4 % of them is in these lists.'),
    h('div.grid', {}, GROUPS.filter(([member]) => page[member]).map((one) => h('div', {}, group(one, page)))));
  }

  return {
    node: h('section.card.wide', { 'aria-label': 'Rejected clients' }, h('h2', {}, 'Clients that are rejected most'), shown),
    async refresh() {
      if (Date.now() - readAt < PAUSE || document.hidden) return;
      readAt = Date.now();
      if (!hasToken()) {
        fill(shown, h('p.quiet', {}, WHY_HIDDEN));
        return;
      }
      try {
        const page = await read('clients/rejected?n=20');
        if (!isClosed) show(page);
      } catch (error) {
        if (!isClosed) fill(shown, failed(error));
      }
    },
    close() {
      isClosed = true;
    },
  };
}
