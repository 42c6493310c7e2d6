#!/usr/bin/env python3
"""What looking for join points costs: the server's CPU time with each container, beside the same bytes as an unknown format; and what
`--hold` adds to it, which has the bytes cut into units.

    benches/joining.py [RUNS [SECONDS [FILE…]]]        needs `cargo build --release`
    PROGRAM=PATH benches/joining.py            another build of Tollgate

Files, those of tests/media if none is named, are sent over and over, at the same rate, once as they are and once with their first byte changed. Those of
tests/media have some ten kbit/s, so their frames are a hundred bytes or so: no live stream has more of them in a byte.
"""
import os, select, socket, statistics, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 2
# Viewers, and bytes a second of the source.
LOADS = [(1, 40_000_000), (100, 4_000_000)]
FILES = sys.argv[3:] or ["h264.ts", "vp8.webm", "h264.mkv", "h264.mp4", "h264.flv", "theora.ogg", "sound.mp3", "sound.aac"]
# As an encoder writes.
PIECE = 4 * 1024


def cpu(pid):
    """Seconds that the loop's thread has run."""
    return int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9


def read_all(sockets):
    buffer, poll = bytearray(1 << 20), select.epoll()
    for each in sockets:
        poll.register(each.fileno(), select.EPOLLIN)
    by_number = {each.fileno(): each for each in sockets}
    while by_number:
        for number, _ in poll.poll():
            if not by_number[number].recv_into(buffer):
                poll.unregister(number)
                del by_number[number]


def run(port, pid, session, media, viewers, rate):
    address = ("127.0.0.1", port)
    source = socket.create_connection(address)
    pieces = [media[at:at + PIECE] for at in range(0, len(media), PIECE)]
    source.sendall(f"PUT /stream/{session} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n".encode())
    sockets = []
    for _ in range(viewers):
        viewer = socket.create_connection(address)
        viewer.sendall(f"GET /stream/{session} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        sockets.append(viewer)
    reader = threading.Thread(target=read_all, args=(sockets,))
    reader.start()
    begun, cpu_begun, sent, index = time.monotonic(), cpu(pid), 0, 0
    while time.monotonic() - begun < SECONDS:
        if sent > rate * (time.monotonic() - begun):
            time.sleep(0.001)
            continue
        source.sendall(pieces[index])
        sent += len(pieces[index])
        index = (index + 1) % len(pieces)
    spent = cpu(pid) - cpu_begun
    source.close()
    reader.join()
    return spent / sent * 1e9


def start(*options):
    program = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
    server = subprocess.Popen([program, "--listen=127.0.0.1:0", "--log=info", *options], stderr=subprocess.PIPE, text=True)
    line = next(line for line in server.stderr if "listening http" in line)
    threading.Thread(target=server.stderr.read, daemon=True).start()
    return server, int(line.rsplit(":", 1)[1])


def main():
    plain, holding = start(), start("--hold=0.01")
    try:
        print("| file | viewers | CPU-s/GB of the source | of an unknown format's | with --hold |\n|---|---|---|---|---|")
        for name in FILES:
            known = open(os.path.join(HERE, "../tests/media", name), "rb").read()
            # A live stream of Matroska has its header once.
            body = max(known.find(b"\x1f\x43\xb6\x75"), 0)
            known = known[:body] + known[body:] * (1 + 200_000 // len(known))
            unknown = b"\0" + known[1:]
            for viewers, rate in LOADS:
                costs = []
                for number in range(RUNS):
                    # Whichever is first has the pages of its buffer given to it by the kernel; the other has them already.
                    order = [(0, known, plain), (1, unknown, plain), (2, known, holding)][::1 if number % 2 else -1]
                    cost = {kind: run(port, server.pid, f"{os.path.basename(name)}-{number}-{kind}", media, viewers, rate) for kind, media, (server, port) in order}
                    costs.append((cost[0], cost[1], cost[2]))
                ratio = statistics.median(known / max(unknown, 0.001) for known, unknown, _ in costs)
                held = statistics.median(held / max(known, 0.001) for known, _, held in costs)
                print(f"| {os.path.basename(name)} | {viewers} | {statistics.median(cost[0] for cost in costs):.2f} | {ratio:.2f} | {held:.2f} |", flush=True)
    finally:
        for server, _ in plain, holding:
            server.kill()


main()
