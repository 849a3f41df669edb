// A server of a language model with the interface of OpenAI's chat completions: it writes `max_tokens` words, or fewer where `words` says so,
// as JSON or as a stream of events, compressed where the client takes gzip. `pause` is the time in milliseconds before the answer.
'use strict';
const http = require('node:http');
const zlib = require('node:zlib');

const [address] = process.argv.slice(2);
const [host, port] = address.split(':');

function reply(question, accepts, response) {
  const most = question.max_tokens > 0 ? question.max_tokens : 16;
  const words = Math.min(question.words ?? most, most);
  const usage = { prompt_tokens: 0, completion_tokens: words, total_tokens: words };
  const headers = { 'Content-Type': question.stream ? 'text/event-stream' : 'application/json' };
  const gzip = /\bgzip\b/.test(accepts ?? '') ? zlib.createGzip() : null;
  if (gzip) headers['Content-Encoding'] = 'gzip';
  response.writeHead(200, headers);
  const out = gzip ?? response;
  if (gzip) gzip.pipe(response);
  if (!question.stream) {
    const message = { role: 'assistant', content: 'a word '.repeat(words) };
    out.end(JSON.stringify({ object: 'chat.completion', choices: [{ message }], usage }));
    return;
  }
  for (let word = 0; word < words; word += 1) {
    const delta = { content: 'data: {"usage":{"total_tokens":0}}\n\n' };
    out.write(`data: ${JSON.stringify({ choices: [{ delta }], usage: null })}\n\n`);
  }
  if (question.stream_options?.include_usage) out.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
  out.end('data: [DONE]\n\n');
}

http.createServer((request, response) => {
  let text = '';
  request.on('data', (piece) => { text += piece; });
  request.on('end', () => {
    const question = JSON.parse(text || '{}');
    setTimeout(() => reply(question, request.headers['accept-encoding'], response), question.pause ?? 0);
  });
}).listen({ host, port: Number(port), backlog: 4096 });
