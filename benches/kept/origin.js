// An origin that closes a connection after a second without a request: on PORT it announces that, as Node does by default, on QUIET it
// does not, as gunicorn.
"use strict";
const http = require("http");

const [port, quiet] = process.argv.slice(2).map(Number);
for (const [at, options] of [[port, {}], [quiet, { Connection: "keep-alive" }]]) {
  const server = http.createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(200, { "Content-Length": 2, ...options }).end("ok"));
  });
  server.keepAliveTimeout = 1000;
  server.listen(at, "127.0.0.1", 1024);
}
