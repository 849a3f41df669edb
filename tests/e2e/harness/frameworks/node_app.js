// The Node origin of the framework matrix: says how both URL parsers of Node read the request, and what Express makes of it where it is at hand.
'use strict';
const http = require('node:http');
const path = require('node:path');
const querystring = require('node:querystring');
const legacy = require('node:url');

const LIMITED = '/auth/sendOTP';
const [address, kind] = process.argv.slice(2);
const [host, port] = address.split(':');

function attempt(read) {
  try {
    return read();
  } catch {
    return null;
  }
}

function decoded(path) {
  return path === null ? null : attempt(() => decodeURIComponent(path)) ?? path;
}

// `parseurl`, with which Express, Connect and many routers find the path, shortened: the target up to its query where it is plain.
function parseurl(target) {
  return /^\/[^\t\n\f\r #\u00a0\ufeff]*$/.test(target) ? target.split('?')[0] : legacy.parse(target).pathname;
}

function values(pairs) {
  const all = Object.create(null);
  for (const [name, value] of pairs) (all[name] ??= []).push(String(value));
  return all;
}

// The usual lookups: `URLSearchParams.get` gives the first, `querystring` all of a name.
function parameters(text) {
  return values([...new URLSearchParams(text), ...Object.entries(querystring.parse(text)).flatMap(([name, value]) =>
    [value].flat().map((one) => [name, one]))]);
}

// As the package `cookie`: at semicolons, the first of a name.
function cookies(text) {
  const pairs = (text ?? '').split(';').filter((pair) => pair.includes('='));
  const all = Object.create(null);
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const name = pair.slice(0, at).trim();
    const value = pair.slice(at + 1).trim().replace(/^"(.*)"$/, '$1');
    all[name] ??= [attempt(() => decodeURIComponent(value)) ?? value];
  }
  return all;
}

function report(request, response, body, read, limited) {
  response.writeHead(200, { 'Content-Type': 'application/json', 'X-Dispatched': limited ? 'limited' : 'other' });
  const target = request.originalUrl ?? request.url;
  const mark = target.indexOf('?');
  const isForm = (request.headers['content-type'] ?? '').startsWith('application/x-www-form-urlencoded');
  response.end(JSON.stringify({
    limited,
    read,
    method: request.method,
    form: isForm ? parameters(body) : {},
    query: parameters(mark < 0 ? '' : target.slice(mark + 1)),
    cookie: cookies(request.headers.cookie),
    header: values(Object.entries(request.headers).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))),
  }));
}

function withBody(request, then) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => then(Buffer.concat(parts).toString('latin1')));
}

let server;
if (kind === 'express') {
  const app = require('express')();
  app.all('/auth/sendOTP', (request, response) => withBody(request, (body) => report(request, response, body, { path: request.path }, true)));
  app.use((request, response) => withBody(request, (body) => report(request, response, body, { path: request.path }, false)));
  server = http.createServer(app);
} else {
  server = http.createServer((request, response) => withBody(request, (body) => {
    const read = {
      'url.parse': attempt(() => legacy.parse(request.url).pathname),
      'url.parse, slashes denote host': attempt(() => legacy.parse(request.url, false, true).pathname),
      'new URL': attempt(() => new URL(request.url, 'http://localhost').pathname),
      'new URL, https': attempt(() => new URL(request.url, `https://${request.headers.host}`).pathname),
      'new URL of host and target': attempt(() => new URL(`http://${request.headers.host}${request.url}`).pathname),
      'path.normalize': attempt(() => path.posix.normalize(request.url.split('?')[0])),
      'path.win32.normalize': attempt(() => path.win32.normalize(request.url.split('?')[0]).replaceAll('\\', '/')),
      parseurl: attempt(() => parseurl(request.url)),
      'up to the query': request.url.split('?')[0],
    };
    const limited = Object.values(read).flatMap((path) => [path, decoded(path)])
      .some((path) => path !== null && path.replace(/\/+$/, '') === LIMITED);
    report(request, response, body, read, limited);
  }));
}
server.listen(Number(port), host);
