// Clients that send POSTs at the same moment, so that all connections of a proxy to its origin are idle for the time between two moments:
// clients.js PORT CLIENTS ROUNDS. Prints the requests, the answers that are 502 and those that are neither 200 nor 502.
"use strict";
const http = require("http");

const [port, clients, rounds] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: clients });
const answers = new Map();

const post = () => new Promise((resolve) => {
  const done = (status) => resolve(answers.set(status, (answers.get(status) || 0) + 1));
  const request = http.request({ port, host: "127.0.0.1", method: "POST", path: "/", agent }, (response) => {
    response.resume().on("end", () => done(response.statusCode));
  });
  request.on("error", () => done(0));
  request.end("phone=1");
});

(async () => {
  for (let round = 0; round < rounds; round += 1) {
    await Promise.all(Array.from({ length: clients }, post));
    // About the second after which the origin closes.
    await new Promise((resolve) => setTimeout(resolve, 950 + Math.random() * 100));
  }
  const of = (status) => answers.get(status) || 0;
  console.log(clients * rounds, of(502), clients * rounds - of(200) - of(502));
  process.exit();
})();
