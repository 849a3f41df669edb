"""A client of HTTP/3 by aioquic, whose datagrams may come from other addresses than its handshake.

The first argument is the port of a gateway on loopback, the second the path of its certificate authority, the rest are steps:

    get PATH          a request; prints its status
    post PATH BYTES   a request with so many bytes; prints its status, and how many bytes came back
    paced PATH N MS   so many requests, one each so many milliseconds; prints their statuses
    parallel PATH N   so many requests at once; prints their statuses
    deaf PATH MS      a request, behind which nothing that comes is read for so many milliseconds; prints its status
    cancel PATH N     so many requests at once, cancelled by RESET_STREAM and STOP_SENDING; prints how many
    trailers PATH     a request with a body and trailers; prints its status
    heads PATH        a request; prints the statuses of its heads, interim ones too, and its trailers
    websocket PATH TEXT
                      opens a WebSocket, RFC 9220, sends a text and closes it; prints whether the gateway offers that, the status, and the text
                      that came back
    large PATH BYTES  a request with so many bytes of fields; prints its status
    reset PATH N      so many requests, each reset before its end; prints the code with which the connection ends
    control HEX N     writes bytes on the control stream so many times; prints the code with which the connection ends
    forge ADDRESS     from now on datagrams leave from this address, and none that comes back there is read
    move ADDRESS      from now on datagrams leave from this address, and are read there
    blind PATH N      so many requests whose answers are not awaited; prints how many were sent
    ports PATH N      so many requests, one behind the other, each from another port; prints their statuses
    scatter N         sends so many small datagrams, each from another address; prints how many bytes these addresses got
    dribble PATH N    a request whose answer gets credit byte by byte, so many times, then for the rest; prints whether pieces came at the
                      gateway's pace, the status, and how many bytes came. It comes first, since it is about the connection, too
    is_open           prints whether neither GOAWAY nor the end of the connection has come
    ended             waits for the end of the connection; prints its code
    goaway            waits for GOAWAY; prints that it came
    window            prints how many bytes the gateway has granted on the connection
    stopped HEX       writes bytes on a stream of its own; prints the code with which the gateway stops it
    behind PATH HEX   writes bytes behind the body of a request that has begun; prints the code with which the connection ends
    bytes KIND HEX    writes bytes on a stream of this kind, `request` or `client`; prints the code with which the connection ends
"""

import asyncio
import json
import socket
import sys
import time

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3 import connection as h3
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamDataReceived, StreamReset

PATIENCE = 30


class LenientConnection(h3.H3Connection):
    """Notes GOAWAY, which aioquic ignores."""

    goaway = None

    def _check_control_frame_type(self, frame_type):
        if frame_type == h3.FrameType.GOAWAY and self.goaway:
            self.goaway.set()
        super()._check_control_frame_type(frame_type)


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if sys.argv[3] == "dribble":
            self._quic._local_max_stream_data_bidi_local = 1
        self.http = LenientConnection(self._quic)
        self.http.goaway = asyncio.Event()
        self.answers = {}
        self.is_deaf = False
        self.pieces = {}
        self.stopped = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, addr):
        if not self.is_deaf:
            super().datagram_received(data, addr)

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated) and not self.ended.done():
            self.ended.set_result(event.error_code)
            for answer in self.answers.values():
                if not answer["whole"].done():
                    answer["whole"].set_exception(ConnectionError(f"closed: {event.error_code:#x}"))
        if isinstance(event, StopSendingReceived) and not self.stopped.done():
            self.stopped.set_result(event.error_code)
        if isinstance(event, StreamReset):
            answer = self.answers.get(event.stream_id)
            if answer and not answer["whole"].done():
                answer["whole"].set_exception(ConnectionError(f"reset: {event.error_code:#x}"))
        if isinstance(event, StreamDataReceived):
            self.pieces[event.stream_id] = self.pieces.get(event.stream_id, 0) + 1
        for event in self.http.handle_event(event):
            answer = self.answers.get(event.stream_id)
            if not answer:
                continue
            if isinstance(event, HeadersReceived):
                answer["heads"].append(dict(event.headers))
            if isinstance(event, DataReceived):
                answer["bytes"] += len(event.data)
                answer["last"] = event.data
            answer["came"].set()
            if event.stream_ended and not answer["whole"].done():
                answer["whole"].set_result(answer)

    def begin(self, method, path, whole=True, fields=()):
        stream = self._quic.get_next_available_stream_id()
        loop = asyncio.get_running_loop()
        self.answers[stream] = {"heads": [], "bytes": 0, "whole": loop.create_future(), "came": asyncio.Event()}
        head = [
            (b":method", method.encode()),
            (b":scheme", b"https"),
            (b":authority", b"a.test"),
            (b":path", path.encode()),
            *fields,
        ]
        self.http.send_headers(stream, head, end_stream=whole)
        return stream

    async def answer(self, stream):
        answer = await asyncio.wait_for(self.answers[stream]["whole"], PATIENCE)
        finals = [head for head in answer["heads"] if head.get(b":status", b"1")[:1] != b"1"]
        return int(finals[0][b":status"]), answer["bytes"]

    async def get(self, path):
        stream = self.begin("GET", path)
        self.transmit()
        return (await self.answer(stream))[0]

    async def come(self, stream, key):
        """Waits until the next part of an answer has come, and returns all of this kind."""
        answer = self.answers[stream]
        while not answer.get(key):
            answer["came"].clear()
            await asyncio.wait_for(answer["came"].wait(), PATIENCE)
        return answer[key]

    def take_over(self, transport, is_read):
        """Sends by another socket from now on."""
        if not is_read:
            transport.get_protocol().owner = None
        self._transport = transport
        self.elsewhere = transport.get_protocol()


class Elsewhere(asyncio.DatagramProtocol):
    """A socket at another address."""

    def __init__(self, owner):
        self.owner = owner
        self.came = asyncio.Event()
        self.bytes = 0

    def datagram_received(self, data, addr):
        self.came.set()
        self.bytes += len(data)
        if self.owner:
            self.owner.datagram_received(data, addr)


async def open_elsewhere(client, address):
    # aioquic has a socket of IPv6 that reaches IPv4 too.
    elsewhere = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    elsewhere.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    elsewhere.bind((f"::ffff:{address}", 0))
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Elsewhere(client), sock=elsewhere)
    return transport


async def scatter(client, number):
    own = client._transport
    others = [await open_elsewhere(None, f"127.8.0.{1 + at}") for at in range(number)]
    for other in others:
        client._transport = other
        client._quic.send_ping(uid=0)
        client.transmit()
        await asyncio.sleep(0.002)
    client._transport = own
    await asyncio.sleep(0.5)
    return sum(other.get_protocol().bytes for other in others)


async def dribble(client, path, times):
    stream = client.begin("GET", path)
    client.transmit()
    state = client._quic._streams[stream]
    write = client._quic._write_stream_limits

    def write_limit(builder, space, stream):
        # aioquic doubles a limit of which half has come.
        receiver, came = stream.receiver, stream.receiver.highest_offset
        receiver.highest_offset = 0
        write(builder, space, stream)
        receiver.highest_offset = came

    client._quic._write_stream_limits = write_limit
    begun = time.monotonic()
    for _ in range(times):
        await asyncio.sleep(0.001)
        state.max_stream_data_local += 1
        client.transmit()
    await asyncio.sleep(0.1)
    pieces = client.pieces[stream]
    waits = (time.monotonic() - begun) / 0.02
    state.max_stream_data_local = 1 << 24
    client.transmit()
    return [pieces <= waits + 2, *await client.answer(stream)]


async def perform(client, port, step, arguments):
    if step == "get":
        return await client.get(arguments[0])
    if step == "post":
        stream = client.begin("POST", arguments[0], whole=False)
        client.http.send_data(stream, b"x" * int(arguments[1]), end_stream=True)
        client.transmit()
        return await client.answer(stream)
    if step == "paced":
        statuses = []
        for _ in range(int(arguments[1])):
            statuses.append(await client.get(arguments[0]))
            await asyncio.sleep(int(arguments[2]) / 1000)
        return statuses
    if step == "parallel":
        streams = [client.begin("GET", arguments[0]) for _ in range(int(arguments[1]))]
        client.transmit()
        return [(await client.answer(stream))[0] for stream in streams]
    if step == "deaf":
        stream = client.begin("GET", arguments[0])
        client.transmit()
        client.is_deaf = True
        await asyncio.sleep(int(arguments[1]) / 1000)
        client.is_deaf = False
        return (await client.answer(stream))[0]
    if step == "cancel":
        streams = [client.begin("GET", arguments[0]) for _ in range(int(arguments[1]))]
        client.transmit()
        for stream in streams:
            client._quic.stop_stream(stream, h3.ErrorCode.H3_REQUEST_CANCELLED)
        client.transmit()
        return len(streams)
    if step == "trailers":
        stream = client.begin("POST", arguments[0], whole=False)
        client.http.send_data(stream, b"body", end_stream=False)
        client.http.send_headers(stream, [(b"x-trailer", b"1")], end_stream=True)
        client.transmit()
        return (await client.answer(stream))[0]
    if step == "heads":
        stream = client.begin("GET", arguments[0])
        client.transmit()
        await client.answer(stream)
        heads = client.answers[stream]["heads"]
        statuses = [int(head[b":status"]) for head in heads if b":status" in head]
        trailers = [name.decode() for head in heads if b":status" not in head for name in head]
        return [statuses, trailers]
    if step == "websocket":
        return await websocket(client, arguments[0], arguments[1].encode())
    if step == "large":
        fields = [(b"x-large", b"x" * 1000)] * (int(arguments[1]) // 1000)
        stream = client.begin("GET", arguments[0], fields=fields)
        client.transmit()
        return (await client.answer(stream))[0]
    if step == "reset":
        for _ in range(int(arguments[1])):
            stream = client.begin("POST", arguments[0], whole=False)
            client.transmit()
            client._quic.reset_stream(stream, h3.ErrorCode.H3_REQUEST_CANCELLED)
            client.transmit()
            await asyncio.sleep(0)
        return await asyncio.wait_for(asyncio.shield(client.ended), PATIENCE)
    if step == "control":
        for _ in range(int(arguments[1])):
            client._quic.send_stream_data(client.http._local_control_stream_id, bytes.fromhex(arguments[0]))
        client.transmit()
        return await asyncio.wait_for(asyncio.shield(client.ended), PATIENCE)
    if step == "ports":
        statuses = []
        for _ in range(int(arguments[1])):
            client.take_over(await open_elsewhere(client, "127.0.0.1"), is_read=True)
            statuses.append(await client.get(arguments[0]))
        return statuses
    if step == "scatter":
        return await scatter(client, int(arguments[0]))
    if step == "dribble":
        return await dribble(client, arguments[0], int(arguments[1]))
    if step in ("forge", "move"):
        client.take_over(await open_elsewhere(client, arguments[0]), is_read=step == "move")
        return arguments[0]
    if step == "blind":
        for _ in range(int(arguments[1])):
            client.begin("GET", arguments[0])
        client.transmit()
        # The gateway has acted on them when it answers there.
        await asyncio.wait_for(client.elsewhere.came.wait(), PATIENCE)
        return int(arguments[1])
    if step == "is_open":
        return not client.http.goaway.is_set() and not client.ended.done()
    if step == "ended":
        return await asyncio.wait_for(asyncio.shield(client.ended), PATIENCE)
    if step == "goaway":
        await asyncio.wait_for(client.http.goaway.wait(), PATIENCE)
        return True
    if step == "window":
        return client._quic._remote_max_data
    if step == "stopped":
        stream = client._quic.get_next_available_stream_id(is_unidirectional=True)
        client._quic.send_stream_data(stream, bytes.fromhex(arguments[0]))
        client.transmit()
        return await asyncio.wait_for(client.stopped, PATIENCE)
    if step == "behind":
        stream = client.begin("POST", arguments[0], whole=False)
        client.http.send_data(stream, b"x", end_stream=False)
        client.transmit()
        # The request is served when they come.
        await asyncio.sleep(0.3)
        client._quic.send_stream_data(stream, bytes.fromhex(arguments[1]))
        client.transmit()
        return await asyncio.wait_for(asyncio.shield(client.ended), 5)
    if step == "bytes":
        stream = client._quic.get_next_available_stream_id(is_unidirectional=arguments[0] == "client")
        client._quic.send_stream_data(stream, bytes.fromhex(arguments[1]))
        client.transmit()
        return await asyncio.wait_for(asyncio.shield(client.ended), PATIENCE)
    raise ValueError(step)


async def websocket(client, path, text):
    stream = client.begin(
        "CONNECT", path, whole=False, fields=[(b":protocol", b"websocket"), (b"sec-websocket-version", b"13")]
    )
    client.transmit()
    head = (await client.come(stream, "heads"))[0]
    offered = client.http.received_settings.get(8) == 1
    if head[b":status"] != b"200":
        return [offered, int(head[b":status"]), ""]
    # RFC 6455 §5.2: a text and the close, each with a mask of zeros.
    mask = bytes(4)
    client.http.send_data(stream, bytes([0x81, 0x80 | len(text)]) + mask + text, end_stream=False)
    client.transmit()
    echoed = await client.come(stream, "last")
    client.http.send_data(stream, bytes([0x88, 0x80]) + mask, end_stream=True)
    client.transmit()
    await asyncio.wait_for(client.answers[stream]["whole"], PATIENCE)
    return [offered, 200, echoed[2:].decode()]


STEPS = {"get": 1, "post": 2, "paced": 3, "deaf": 2, "parallel": 2, "cancel": 2, "trailers": 1, "forge": 1, "move": 1}
STEPS |= {"ports": 2, "scatter": 1, "dribble": 2}
STEPS |= {"heads": 1, "websocket": 2, "large": 2, "reset": 2, "control": 2}
STEPS |= {"blind": 2, "is_open": 0, "ended": 0, "goaway": 0, "window": 0, "stopped": 1, "behind": 2, "bytes": 2}


async def main(port, authority, steps):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="a.test")
    configuration.load_verify_locations(authority)
    # Of loopback in IPv4, so that it can be another address of it later.
    async with connect(
        "127.0.0.1", int(port), configuration=configuration, create_protocol=Client
    ) as client:
        while steps:
            step, *steps = steps
            count = STEPS[step]
            arguments, steps = steps[:count], steps[count:]
            try:
                result = await perform(client, int(port), step, arguments)
            except (ConnectionError, asyncio.TimeoutError) as error:
                result = f"{type(error).__name__}: {error}"
            print(json.dumps(result), flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
