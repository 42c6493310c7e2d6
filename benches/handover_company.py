#!/usr/bin/env python3
"""Everybody beside the viewers while servers take over from each other (benches/handover.py starts it): prints what each noticed, as JSON.

    benches/handover_company.py HTTP_PORT RTP_PORT SECONDS

Sources of MPEG-TS that go out as RTP, cameras whose RTP comes in and goes out again, a stream for players of HLS (ffmpeg), readers of the events, and callers who give out and
revoke tokens one after the other on a connection that stays. All is checked as it comes: RTP's numbers and SSRC, and each byte of what a camera sent; each segment's number and
its bytes, which are the same for every player; each event's number; each answer.
"""
import asyncio, hashlib, json, re, socket, struct, subprocess, sys, time

PORT, RTP_PORT, SECONDS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
OUT, CAMERAS, PLAYERS, READERS, CALLERS = 10, 10, 100, 50, 10
noticed = {"rtp out": [0, 0], "rtp in": [0, 0], "hls segments": [0, 0], "events": [0, 0], "calls": [0, 0]}
why, segments, running = [], {}, True


def note(what, is_right, detail=""):
    noticed[what][0] += 1
    if not is_right:
        noticed[what][1] += 1
        why.append(f"{what}: {detail}")


async def ask(reader, writer, method, target):
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    body = b""
    if found := re.search(r"content-length: (\d+)", head):
        body = await reader.readexactly(int(found[1]))
    elif "chunked" in head:
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    return int(head.split()[1]), body


def connect():
    return asyncio.open_connection("127.0.0.1", PORT, limit=1 << 20)


async def call(target):
    reader, writer = await connect()
    status, body = await ask(reader, writer, "POST", target)
    writer.close()
    assert status == 201, (target, status, body)


def port():
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("127.0.0.1", 0))
    own.setblocking(False)
    return own


def group(number):
    """40 ms of MPEG-TS: seven packets, of which the first has the clock."""
    clock = (number * 3600 << 15 | 0x7E00).to_bytes(6, "big")
    first = bytes([0x47, 1, 1, 0x20, 183, 0x10]) + clock + b"\xff" * 176
    return first + b"".join(bytes([0x47, 1, 1, 0x10 | (number * 6 + packet) % 16]) + struct.pack(">I", number) * 46 for packet in range(6))


async def in_time(do):
    begun, number = time.monotonic(), 0
    while running:
        await asyncio.sleep(max(0, begun + number * 0.04 - time.monotonic()))
        do(number)
        number += 1


async def rtp_out(index):
    own = port()
    await call(f"/api/add-token?type=http,rtp-udp&sessionid=out{index}&udp-clients=127.0.0.1:{own.getsockname()[1]}")
    _, writer = await connect()
    writer.write(f"PUT /stream/out{index} HTTP/1.1\r\nHost: h\r\nContent-Type: video/mp2t\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    sending = asyncio.ensure_future(in_time(lambda number: writer.write(b"%x\r\n%s\r\n" % (7 * 188, group(number)))))
    due = None
    while running:
        data = await asyncio.get_running_loop().sock_recv(own, 4096)
        number, ssrc = struct.unpack(">2xH4xI", data[:12])
        note("rtp out", due in (None, (number, ssrc)), f"{(number, ssrc)} for {due}")
        due = ((number + 1) % 65536, ssrc)
    await sending


async def rtp_in(index):
    camera, own = port(), port()
    await call(f"/api/add-token?type=http,rtp-udp&sessionid=cam{index}&udp-clients=127.0.0.1:{camera.getsockname()[1]},127.0.0.1:{own.getsockname()[1]}")
    packet = lambda number: struct.pack(">BBHII", 0x80, 33, number % 65536, number * 3600 % 2**32, index) + group(number)
    sending = asyncio.ensure_future(in_time(lambda number: camera.sendto(packet(number), ("127.0.0.1", RTP_PORT))))
    due = None
    while running:
        data = await asyncio.get_running_loop().sock_recv(own, 4096)
        number = struct.unpack(">2xH", data[:4])[0] if due is None else due
        note("rtp in", data == packet(number), f"{number} is not what came")
        due = number + 1
    await sending


async def player(_):
    """Asks for each list before it is there, and for each segment once."""
    reader, writer = await connect()
    status, body = await ask(reader, writer, "GET", "/stream/hls/index.m3u8")
    newest = None
    while running:
        text = body.decode()
        first = int(re.search(r"MEDIA-SEQUENCE:(\d+)", text)[1])
        names = re.findall(r"^[^#\s].*$", text, re.M)
        for number, name in enumerate(names, first):
            if newest is not None and number <= newest:
                continue
            is_next = newest is None or number == newest + 1
            status, segment = await ask(reader, writer, "GET", f"/stream/hls/{name}")
            digest = hashlib.sha256(segment).digest()
            note("hls segments", is_next and status == 200 and segments.setdefault((number, name), digest) == digest, f"{number} {name} {status} behind {newest}")
            newest = number
        status, body = await ask(reader, writer, "GET", f"/stream/hls/index.m3u8?_HLS_msn={newest + 1}")
        if status != 200:
            note("hls segments", False, f"a list: {status}")
            return


async def follower(_):
    reader, writer = await connect()
    writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    due = None
    while running:
        line = (await reader.readline()).decode()
        if not line:
            return note("events", False, "cut")
        note_it = re.match(r"id: ([0-9a-f]+)-([0-9]+)$", line.strip())
        if note_it:
            run, number = note_it[1], int(note_it[2])
            note("events", due in (None, (run, number)), f"{number} for {due}")
            due = (run, number + 1)
        if "missed" in line:
            note("events", False, "some are missed")


async def caller(index):
    reader, writer = await connect()
    while running:
        for method, target, wanted in (("POST", f"/api/add-token?type=http&sessionid=call{index}", 201), ("GET", "/api/list-streams", 200), ("DELETE", f"/api/revoke-token?sessionid=call{index}", 200)):
            status, body = await ask(reader, writer, method, target)
            note("calls", status == wanted, f"{target}: {status} {body[:80]}")
            await asyncio.sleep(0.02)


async def main():
    global running
    await call("/api/add-token?type=http&sessionid=hls")
    film = subprocess.Popen(["ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=160x120:rate=25", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-f", "mpegts",
                             "-method", "PUT", f"http://127.0.0.1:{PORT}/stream/hls"], stdin=subprocess.DEVNULL)
    tasks = [asyncio.ensure_future(each) for each in [*map(rtp_out, range(OUT)), *map(rtp_in, range(CAMERAS)), *map(follower, range(READERS)), *map(caller, range(CALLERS))]]
    await asyncio.sleep(8)
    tasks += map(asyncio.ensure_future, map(player, range(PLAYERS)))
    print("ready", flush=True)
    await asyncio.sleep(SECONDS)
    running = False
    for task in tasks:
        if task.done() and task.exception():
            why.append(repr(task.exception()))
    has_left = film.poll() is not None
    film.kill()
    print(json.dumps({"noticed": noticed, "why": why[:20], "film_left": has_left}), flush=True)
    sys.stdout.flush()
    __import__("os")._exit(0)


asyncio.run(main())
