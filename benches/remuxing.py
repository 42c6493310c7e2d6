#!/usr/bin/env python3
"""What a stream in another container costs: the server's CPU time while viewers have FLV as MPEG-TS or as fragmented MP4, beside the same
viewers who have it as it is.

    benches/remuxing.py [RUNS] [SECONDS]        needs `cargo build --release`
    PROGRAM=PATH benches/remuxing.py            another build of Tollgate
    FILE=PATH benches/remuxing.py               this file is the source: some 60 MB, for runs of 2 s

The source is FLV of pictures and sound, 25 pictures and 47 frames of sound a second, a key frame every two seconds, at 8 Mbit/s of media;
it is sent faster than that. Runs of the three stand side by side; the table has the medians of their ratios.
"""
import os, random, select, socket, statistics, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 2
# Viewers, and bytes a second of the source.
LOADS = [(1, 20_000_000), (100, 2_000_000)]
# Sent before the measurement. It fills the buffers of 8 MiB: the kernel clears the pages of a new one.
FIRST_BYTES = 10_000_000
WAYS = ["", "/live.ts", "/live.mp4"]
PICTURE, SOUND = 38_000, 360


def cpu(pid):
    """Seconds that the loop's thread has run."""
    return int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9


def tag(kind, time_ms, body):
    head = bytes([kind]) + len(body).to_bytes(3, "big") + (time_ms & 0xffffff).to_bytes(3, "big") + bytes([time_ms >> 24 & 0xff, 0, 0, 0])
    return head + body + (len(body) + 11).to_bytes(4, "big")


def film():
    """What decoders need, and then a second after the other."""
    if "FILE" in os.environ:
        with open(os.environ["FILE"], "rb") as media:
            while piece := media.read(1 << 20):
                yield piece
        sys.exit("the file is too short")
    file = open(f"{HERE}/../tests/media/h264.flv", "rb").read()
    head, at = bytearray(file[:13]), 13
    key = other = None
    while other is None:
        length = int.from_bytes(file[at + 1:at + 4], "big")
        kind, body = file[at], file[at + 11:at + 11 + length]
        if kind == 18 or body[1] == 0:
            head += file[at:at + length + 15]
        elif kind == 9 and body[0] == 0x17:
            key = body
        elif kind == 9:
            other = body
        at += length + 15
    yield bytes(head)
    noise = bytes(random.Random(1).choices(range(1, 256), k=PICTURE))
    filler = len(noise + b"x").to_bytes(4, "big") + b"\x0c" + noise
    second = 0
    while True:
        out, frame = bytearray(), 0
        for picture in range(25):
            ms = 1000 * second + 40 * picture
            out += tag(9, ms, (key if picture == 0 and second % 2 == 0 else other) + filler)
            while frame * 1000 // 47 <= 40 * picture:
                out += tag(8, 1000 * second + frame * 1000 // 47, b"\xaf\x01" + noise[:SOUND])
                frame += 1
        yield bytes(out)
        second += 1


def read_all(sockets, counts):
    buffer, poll = bytearray(1 << 20), select.epoll()
    for each in sockets:
        poll.register(each.fileno(), select.EPOLLIN)
    by_number = {each.fileno(): each for each in sockets}
    while by_number:
        for number, _ in poll.poll():
            got = by_number[number].recv_into(buffer)
            counts[0] += got
            if not got:
                poll.unregister(number)
                del by_number[number]


def run(port, pid, session, way, viewers, rate):
    """CPU seconds for each GB of the source."""
    address = ("127.0.0.1", port)
    source, media = socket.create_connection(address), film()
    source.sendall(f"PUT /stream/{session} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n".encode())
    source.sendall(next(media) + next(media))
    time.sleep(0.2)
    sockets, counts = [], [0]
    for _ in range(viewers):
        viewer = socket.create_connection(address)
        viewer.sendall(f"GET /stream/{session}{way} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        sockets.append(viewer)
    reader = threading.Thread(target=read_all, args=(sockets, counts))
    reader.start()
    pieces = (second[at:at + 16_384] for second in media for at in range(0, len(second), 16_384))
    for _ in range(FIRST_BYTES // 16_384):
        source.sendall(next(pieces))
    time.sleep(0.5)
    begun, cpu_begun, sent, had = time.monotonic(), cpu(pid), 0, counts[0]
    while time.monotonic() - begun < SECONDS:
        if sent > rate * (time.monotonic() - begun):
            time.sleep(0.001)
            continue
        piece = next(pieces)
        source.sendall(piece)
        sent += len(piece)
    time.sleep(0.2)
    spent = cpu(pid) - cpu_begun
    source.close()
    reader.join()
    if counts[0] - had < 0.9 * sent * viewers:
        sys.exit(f"{way}: {counts[0] - had} of {sent * viewers} bytes came")
    return spent / sent * 1e9


def main():
    program = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
    server = subprocess.Popen([program, "--listen=127.0.0.1:0", "--log=info"], stderr=subprocess.PIPE, text=True)
    line = next(line for line in server.stderr if "listening http" in line)
    threading.Thread(target=server.stderr.read, daemon=True).start()
    port = int(line.rsplit(":", 1)[1])
    print("| viewers | as it is, CPU-s/GB of the source | MPEG-TS | fragmented MP4 |\n|---|---|---|---|")
    for viewers, rate in LOADS:
        figures = []
        for number in range(RUNS):
            figures.append([run(port, server.pid, f"s{viewers}-{number}-{at}", way, viewers, rate) for at, way in enumerate(WAYS)])
        own = statistics.median(each[0] for each in figures)
        ratios = [statistics.median(each[at] / each[0] for each in figures) for at in (1, 2)]
        print(f"| {viewers} | {own:.2f} | {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)
    server.kill()


main()
