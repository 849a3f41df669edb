// A WebSocket over HTTP/2 by Node's own client: `node websocket.mjs ADDRESS`. Prints what it learns as one object.
import http2 from "node:http2";

const text = Buffer.from("hello");
const large = Buffer.alloc(100_000, 7);
const mask = Buffer.alloc(4);

// A masked frame of text, then one of bytes, RFC 6455 §5.2; the masks are zeros.
function sent() {
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(large.length));
  return Buffer.concat([
    Buffer.from([0x81, 0x80 | text.length]), mask, text,
    Buffer.from([0x82, 0x80 | 127]), length, mask, large,
  ]);
}

const client = http2.connect(process.argv[2]);
client.on("error", (error) => { throw error; });
client.on("remoteSettings", (settings) => {
  const found = { offered: settings.enableConnectProtocol, echoed: 0 };
  const stream = client.request({
    ":method": "CONNECT", ":protocol": "websocket", ":scheme": "http", ":authority": "gateway.test",
    ":path": process.argv[3], "sec-websocket-version": "13", "sec-websocket-key": "bm90IHRoZSBnYXRld2F5cw==",
  });
  stream.on("response", (head) => {
    found.status = head[":status"];
    found.fields = Object.keys(head).filter((name) => /upgrade|connection|accept/.test(name));
    if (found.status === 200) stream.write(sent());
    else stream.end();
  });
  // Unmasked frames come back: 2 bytes in front of the text, 10 in front of the bytes.
  const all = 2 + text.length + 10 + large.length;
  const read = [];
  stream.on("data", (bytes) => {
    read.push(bytes);
    found.echoed += bytes.length;
    if (found.echoed === all) stream.end();
  });
  stream.on("close", () => {
    const bytes = Buffer.concat(read);
    found.isSame = bytes.includes(text) && bytes.includes(large);
    found.reset = stream.rstCode;
    console.log(JSON.stringify(found));
    client.close();
  });
});
