// Reads messages with llhttp, the parser of Node: a line of standard input is a message in base64, a line of standard output what it was read as.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const { Duplex } = require('node:stream');

/** A connection that delivers some bytes, and takes what is written. */
class Connection extends Duplex {
  constructor(bytes, step, ends) {
    super({ allowHalfOpen: true });
    this.parts = [];
    for (let at = 0; at < bytes.length; at += step) this.parts.push(bytes.subarray(at, at + step));
    if (ends) this.parts.push(null);
    this.read_messages = [];
    this.error = null;
  }
  _read() {
    if (this.parts.length > 0) this.push(this.parts.shift());
  }
  _write(_chunk, _encoding, done) {
    done();
  }
}

/** Keeps a message of which the head was read; it is whole once its body has ended. */
function keep(connection, message, start) {
  const read = { ...start, fields: message.rawHeaders, data: '', trailer: [], whole: false };
  const parts = [];
  connection.read_messages.push(read);
  message.on('data', (part) => parts.push(part));
  message.on('error', () => {});
  message.on('end', () => {
    read.data = Buffer.concat(parts).toString('base64');
    read.trailer = message.rawTrailers;
    read.whole = message.complete;
  });
}

const server = http.createServer({ connectionsCheckingInterval: 1e9 }, (request, response) => {
  keep(request.socket, request, { method: request.method, target: request.url, status: 0 });
  request.on('end', () => response.end());
});
for (const event of ['checkContinue', 'checkExpectation']) {
  server.on(event, (request, response) => server.emit('request', request, response));
}
server.on('clientError', (error, connection) => {
  connection.error = error.code ?? String(error);
});

/** Waits until nothing is left to do: all parts are in memory, so each step of a connection takes a turn of the loop at most. */
async function settled(connection) {
  let left = connection.parts.length;
  for (let idle = 0; idle < 4; idle += 1) {
    await new Promise(setImmediate);
    if (connection.parts.length < left) idle = 0;
    left = connection.parts.length;
  }
}

async function requests(bytes, step) {
  const connection = new Connection(bytes, step, false);
  connection.on('error', () => {});
  server.emit('connection', connection);
  await settled(connection);
  connection.destroy();
  return connection;
}

async function response(bytes, step, method) {
  const connection = new Connection(bytes, step, true);
  const request = http.request({ method, createConnection: () => connection });
  request.on('error', (error) => {
    connection.error = error.code ?? String(error);
  });
  request.on('response', (message) => keep(connection, message, { method: '', target: '', status: message.statusCode }));
  request.end();
  await settled(connection);
  connection.destroy();
  return connection;
}

async function main() {
  for (const line of fs.readFileSync(0, 'latin1').trimEnd().split('\n')) {
    const [kind, step, base64] = line.split(' ');
    const bytes = Buffer.from(base64 ?? '', 'base64');
    const read = kind === 'request' ? await requests(bytes, Number(step)) : await response(bytes, Number(step), kind);
    process.stdout.write(`${JSON.stringify({ messages: read.read_messages, error: read.error })}\n`);
  }
  process.exit(0);
}

main();
