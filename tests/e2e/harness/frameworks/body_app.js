// Origins of the framework matrix that are read for bodies alone: formidable and busboy, which most parsers of forms for Node are built on.
'use strict';
const http = require('node:http');

const [address, kind] = process.argv.slice(2);
const [host, port] = address.split(':');

function formidable(request, then) {
  const { formidable } = require('formidable');
  // Browsers send an empty file where none is chosen.
  formidable({ allowEmptyFiles: true, minFileSize: 0 }).parse(request, (error, fields) => then(error ? {} : fields));
}

function busboy(request, then) {
  const fields = Object.create(null);
  try {
    const parser = require('busboy')({ headers: request.headers });
    parser.on('field', (name, value) => (fields[name] ??= []).push(value));
    parser.on('file', (_name, stream) => stream.resume());
    parser.on('error', () => then({}));
    parser.on('close', () => then(fields));
    request.pipe(parser);
  } catch {
    request.resume().on('end', () => then({}));
  }
}

function report(response, method, fields) {
  if (response.headersSent) return;
  const all = Object.create(null);
  for (const [name, value] of Object.entries(fields)) all[name] = [value].flat().map(String);
  response.writeHead(200, { 'Content-Type': 'application/json', 'X-Dispatched': 'other' });
  // formidable reads JSON into the same fields.
  response.end(JSON.stringify({ limited: false, read: {}, method, form: all, json: all }));
}

http.createServer((request, response) => {
  ({ formidable, busboy })[kind](request, (fields) => report(response, request.method, fields));
}).listen(Number(port), host);
