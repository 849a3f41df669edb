// The overview: what passes, what is rejected and by which limit, and what stands behind the gateway.

import { durationChart, rateChart } from '../chart.js';
import { colorOf, nameOf, rangeButtons, RANGES, shownRange } from '../history.js';
import { card, clock, count, facts, h, link, millis, perSecond, percent, plural, renew, say, span, table, when } from '../dom.js';
import { part } from '../access.js';
import { rejectedClients } from './clients.js';
import { rulesInForce } from './rules.js';

/** Limits in the table of rejections. */
const ROWS = 8;
/** Rejected clients of each group. */
const CLIENTS = 3;
/** Marks in the list of what happened. */
const MARKS = 20;

export default function overview({ series }) {
  const tile = (label) => {
    const value = h('dd', {}, '–');
    const below = h('dd', {}, '');
    return { node: h('div', {}, h('dt', {}, label), value, below), value, below };
  };
  const tiles = {
    requests: tile('Requests a second'), failed: tile('Failed a second'), rejected: tile('Rejected a second'), latency: tile('Latency, median'),
    flight: tile('In flight'), servers: tile('Servers'), limits: tile('Limits'),
  };
  const chart = rateChart('Requests', { answered: 'Answered', failed: 'Failed', rejected: 'Rejected', shadow: 'Would be rejected (shadow)' });
  const latency = durationChart('Latency', { p50: 'p50', p90: 'p90', p99: 'p99' });
  const rejecting = h('div', {}, h('p.quiet', {}, 'None since this page was opened.'));
  const latest = h('div');
  const clients = rejectedClients({
    rows: CLIENTS, optional: true,
    entry: (group, name) => h('a', { href: `#/rejections?${group}=${part(name)}`, title: name }, name || 'none'),
  });
  const happened = h('div');
  const origins = h('div');
  const store = h('div');
  const certificates = h('div');
  const configuration = h('div');
  const rules = h('div');
  const storeCard = card('Store', store);

  function counters() {
    const { now } = series;
    if (now.rates) rates(now.rates);
    say(tiles.requests.below, plural(now.connections, 'connection'));
    say(tiles.latency.value, millis(now.latency?.p50));
    say(tiles.latency.below, now.latency ? `p90 ${millis(now.latency.p90)}, p99 ${millis(now.latency.p99)}` : 'no requests');
    say(tiles.flight.value, count(now.inFlight));
    const full = [...series.limits.values()].filter((limit) => limit.load?.overflow).length;
    say(tiles.limits.value, count(series.limits.size));
    say(tiles.limits.below, full ? `${full} in overflow` : 'none in overflow');
    mark(tiles.limits, full ? 'bad' : '');
    charts();
    const all = shownRange() === 'hour' ? series.lastHour() : lately();
    const sums = all.filter((row) => row.rejected + row.shadow > 0).sort((a, b) => b.rejected - a.rejected || b.shadow - a.shadow);
    renew(rejecting, !sums.length ? h('p.quiet', {}, `None in ${RANGES[shownRange()]}.`) : table(`Limits that rejected in ${RANGES[shownRange()]}`, [
      { label: 'Limit' }, { label: 'Rejected', number: true }, { label: 'now /s', number: true }, { label: 'In shadow', number: true },
    ], sums.slice(0, ROWS).map((row) => [
      link(`limit/${part(row.name)}`, row.name), count(row.rejected), perSecond(row.rates?.rejected ?? 0), count(row.shadow),
    ])), sums.length > ROWS && h('p.small.quiet', {}, link('limits', `${sums.length - ROWS} more`)));
  }

  /** The requests that limits rejected in the last two minutes. */
  const lately = () => [...series.limits].filter(([, limit]) => limit.sums).map(([name, { sums: of, rates }]) => ({
    name, rates, rejected: total(of.rejected), shadow: total(of.shadow),
  }));

  function charts() {
    const { history } = series;
    const isHour = shownRange() === 'hour';
    const marks = history.recent();
    chart.update(isHour ? history.rates() : series.total, marks);
    latency.update(isHour ? history.latency() : series.latency, marks);
  }

  function events() {
    const marks = series.history.recent();
    renew(happened, table('What happened in the last hour, the latest first', [{ label: 'Time' }, { label: 'What' }],
      marks.slice(0, MARKS).map((mark) => [clock(mark.at), [h('b', { class: colorOf(mark) }, nameOf(mark)), ` ${mark.text}`]]), 'Nothing in the last hour.', 'line'),
    marks.length > MARKS && h('p.small.quiet', {}, `and ${marks.length - MARKS} more, in /history`));
  }

  function rates({ all, rejected, failed, failed_by_gateway, failed_by_origins, clients_gone }) {
    const share = (part) => (all > 0 ? `${percent(part / all)} of requests` : 'no requests');
    say(tiles.requests.value, perSecond(all));
    say(tiles.rejected.value, perSecond(rejected));
    say(tiles.rejected.below, share(rejected));
    mark(tiles.rejected, rejected ? 'bad' : '');
    const parts = [[failed_by_gateway, 'by the gateway'], [failed_by_origins, 'by origins'], [clients_gone, 'clients gone']];
    say(tiles.failed.value, perSecond(failed));
    say(tiles.failed.below, parts.filter(([part]) => part > 0).map(([part, name]) => `${perSecond(part)} ${name}`).join(', ') || share(failed));
    mark(tiles.failed, failed_by_gateway + failed_by_origins ? 'bad' : failed ? 'warn' : '');
  }

  function tail() {
    renew(latest, table('The latest rejections', [{ label: 'Time' }, { label: 'Client' }, { label: 'By' }, { label: 'Status', number: true }],
      series.rejections.slice(0, 5).map((row) => [clock(row.at), h('span.mono', {}, row.client ?? '–'),
        row.limit ? link(`limit/${part(row.limit)}`, row.limit) : row.outcome, String(row.status || '–')]), 'None since this page was opened.', 'line'));
  }

  function facade() {
    const { state, overview: said } = series;
    renew(rules, rulesInForce(state.rules));
    const servers = state.origins.flatMap((origin) => origin.servers.map((server) => ({ origin, server })));
    const well = servers.filter(({ server }) => server.healthy && !server.fault).length;
    say(tiles.servers.value, `${well} of ${servers.length}`);
    mark(tiles.servers, servers.some(({ server }) => server.fault) ? 'bad' : '');
    say(tiles.servers.below, standing(servers.map(({ server }) => server)));
    renew(origins, table('Origins and their servers', [
      { label: 'Origin' }, { label: 'Server' }, { label: 'State' }, { label: 'In flight', number: true }, { label: 'Failed lately', number: true },
      { label: 'Limit', number: true }, { label: 'Latest failure' },
    ], servers.map(({ origin, server }) => [origin.name, h('span.mono', {}, server.address),
      h('span', { class: tone(server) }, server.state + (server.backup ? ', backup' : '')), count(server.in_flight),
      server.silence ? h('span.bad', { title: `since ${clock(server.silence.since)}` }, `${count(server.silence.unanswered)} not answered`)
        : server.recent.attempts ? h('span', { class: server.fault && server.recent.failed ? 'bad' : '' }, `${count(server.recent.failed)} of ${count(server.recent.attempts)}`) : '–',
      server.limit ? h('span', { title: `${server.limit.waiting} wait for a response` }, count(server.limit.requests)) : '–',
      server.last_error ? h('span', { title: server.last_error.reason }, `${server.last_error.failure} at ${clock(server.last_error.at)}`)
        : server.last_failure ? `${server.last_failure.outcome} at ${clock(server.last_failure.at)}` : '–']), 'No origin is configured.'));
    storeCard.hidden = !state.store;
    if (state.store) {
      renew(store, table('Servers of the store', [{ label: 'Server' }, { label: 'State' }, { label: 'Since' }, { label: 'Latest error' }],
        state.store.servers.map((server) => [h('span.mono', {}, server.address),
          h('span', { class: server.state === 'connected' ? 'good' : 'bad' }, server.state), clock(server.since), server.last_error?.error ?? '–'])),
      facts([['Gateways', count(state.store.nodes)], ['Lag', state.replication && span(state.replication.lag_seconds)],
        ['Dropped units', state.replication?.dropped_units ? h('span.bad', {}, count(state.replication.dropped_units)) : null]]));
    }
    const orders = (state.acme?.certificates ?? []).filter((order) => order.error);
    renew(certificates, table('Certificates', [{ label: 'Names' }, { label: 'Listener' }, { label: 'Valid until' }],
      state.certificates.map((certificate) => {
        const end = certificate.expired ? ', expired' : certificate.near_end ? ', soon' : '';
        return [certificate.names.join(', '), certificate.listener ?? 'all', h('span', { class: end ? 'bad' : '' }, when(certificate.not_after), end)];
      }), 'No listener speaks TLS.'), orders.map((order) => h('p.error', {}, `${order.names.join(', ')}: ${order.error}`)));
    renew(configuration, changes(said.configuration, [['Version', said.version], ['Started', when(said.started)]]));
  }

  return {
    title: 'Overview',
    node: [
      h('h1', {}, 'Overview'), rules,
      h('dl.tiles', {}, Object.values(tiles).map(({ node }) => node)),
      rangeButtons(() => counters()),
      h('div.grid', {}, card('Requests', chart.node), card('Latency of requests that were not rejected', latency.node),
        h('section.card.wide', { 'aria-label': 'Origins' }, h('h2', {}, 'Origins'), origins),
        card('Rejections by limit', rejecting), card('Latest rejections', latest), clients.node,
        h('section.card.wide', { 'aria-label': 'What happened' }, h('h2', {}, 'What happened'), happened), card('Certificates', certificates),
        card('Configuration in force', configuration), storeCard),
    ],
    close: clients.close,
    update(name) {
      if (name === 'all' || name === 'counters') {
        counters();
        clients.refresh();
      }
      if (name === 'all' || name === 'history') events();
      if (name === 'all' || name === 'rejections') tail();
      if (name === 'all' || name === 'state' || name === 'overview') facade();
    },
  };
}

/** The last reload: shown here and in the view of the configuration. */
export function changes({ file, generation, loaded_at, last_reload, pending_restart, broken_files }, more = []) {
  return [
    facts([['File', h('code', {}, file)], ['In force', [`generation ${generation}, read `, when(loaded_at)]],
      ['Last reload', last_reload ? [h('span', { class: last_reload.result === 'ok' ? 'good' : 'bad' }, last_reload.result), ', ', when(last_reload.at)] : 'none'],
      ['Waits for a restart', pending_restart.length ? pending_restart.join(', ') : null], ...more]),
    last_reload?.error && h('p.error', {}, last_reload.error),
    broken_files.map((broken) => h('p.error', {}, broken)),
    last_reload?.changes.length ? [h('h3', {}, 'Changes'), h('ul.plain.small', {}, last_reload.changes.slice(0, 20).map((change) => h('li', {}, change))),
      last_reload.changes.length > 20 && h('p.small.quiet', {}, `and ${last_reload.changes.length - 20} more, in the process log`)] : null,
  ];
}

/** The servers that are not up, by their state; a fault is never left out. */
function standing(servers) {
  const states = new Map();
  for (const { state } of servers) if (state !== 'up') states.set(state, (states.get(state) ?? 0) + 1);
  return [...states].map(([state, number]) => `${count(number)} ${state}`).join(', ') || 'up';
}

/** The color of a server: no check has seen one that is unchecked, so it is not green. */
const tone = (server) => (server.fault ? 'bad' : server.state === 'up' ? 'good' : server.healthy ? '' : 'warn');

/** Colors the value of a tile, and the line below it. */
function mark({ value, below }, color) {
  value.className = color;
  below.className = color;
}

const total = (points) => points.reduce((sum, one) => sum + one, 0);
