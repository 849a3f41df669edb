// The clients that are rejected most, in groups. A choice of one leaves its rejections in the tail.

import { hasToken, read } from '../access.js';
import { count, failed, fill, h, link, percent, plural, renew, span, table } from '../dom.js';

/** The counts are read again at most so often. */
const PAUSE = 5000;

/** The members of an answer, with the name of the group in an event, in words, and as the head of a column where it is another. */
export const GROUPS = [
  ['addresses', 'address', 'Address'], ['networks', 'network', 'Network'], ['countries', 'country', 'Country'],
  ['asns', 'asn', 'Autonomous system', 'ASN'], ['user_agents', 'user_agent', 'User agent'],
];

/** Whether a row is there for its rejections, rather than for those of the rows whose place it took. */
const standsOut = (row) => row.requests > row.error;

const WHY_HIDDEN = 'Set [admin] token_file: only who has a token is shown the clients that are rejected most.';

/**
 * The card of the clients, with so many rows of each group. `entry` makes the cell of a client from the member of a rejection that names its
 * group, its name, and the group in words. Where the card is `optional`, it is there only while clients are rejected and may be shown.
 */
export function rejectedClients({ rows, entry, optional = false }) {
  const shown = h('div', {}, h('p.quiet', {}, 'Reading the counts.'));
  const node = h('section.card.wide', { 'aria-label': 'Rejected clients', hidden: optional }, h('h2', {}, 'Clients that are rejected most'), shown);
  let readAt = 0;
  let isClosed = false;

  const share = (row) => h('span', { title: `${count(row.requests)}${row.error ? ` to ${count(row.requests + row.error)}` : ''} rejected` }, percent(row.share));

  function group([member, key, title, head = title], page) {
    const members = page[member].filter(standsOut).slice(0, rows);
    return table(`Rejected requests by ${title.toLowerCase()}`, [{ label: head }, { label: 'Share', number: true }],
      members.map((row) => [entry(key, row.name, title.toLowerCase()), share(row)]), `${title}: none stands out.`, 'line');
  }

  function show(page) {
    node.hidden = optional && !page.rejected;
    if (!page.rejected) {
      fill(shown, h('p.quiet', {}, 'Nothing was rejected in the last minutes.'));
      return;
    }
    renew(shown, h('div.groups', {}, GROUPS.filter(([member]) => page[member]).map((one) => h('div', {}, group(one, page)))),
      h('p.small.quiet', {}, `${plural(page.rejected, 'request')} rejected in the last ${span(page.seconds)}`,
        page.left_out ? `, and ${count(page.left_out)} that were not counted` : '', '. ',
        optional ? link('rejections', 'All rejections') : '/clients/rejected has all who have more than 0.4 % of them.'));
  }

  return {
    node,
    async refresh() {
      if (Date.now() - readAt < PAUSE || document.hidden || (optional && !hasToken())) return;
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
