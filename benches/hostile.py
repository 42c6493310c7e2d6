#!/usr/bin/env python3
"""An ordinary stream beside two sources of hostile bytes that send as fast as they can, each of tests/bounds/media.rs in turn.

    cargo bench --bench costs -- write FOLDER       writes the hostile sources
    benches/hostile.py FOLDER [SECONDS]             needs `cargo build --release`
    PROGRAM=PATH benches/hostile.py FOLDER          another build of Tollgate

Prints for each: the latency of 20 viewers of 8 Mbit/s, the time of an answer to /healthz, and the server's memory. The server holds streams and
remuxes the hostile ones for two viewers. The clients share the processors with the server, so their own turns are part of every figure.
"""
import os, selectors, signal, socket, struct, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = sys.argv[1]
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 2
PROGRAM = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
PIECE = 16 * 1024
latencies, answers = [], []


def chunk(piece):
    return b"%x\r\n%s\r\n" % (len(piece), piece)


class Server:
    def __init__(self):
        options = ["--listen=127.0.0.1:0", "--log=error", "--rtp=off", "--hold=60"]
        self.process = subprocess.Popen([PROGRAM, *options], stderr=subprocess.PIPE, text=True)
        line = next(line for line in self.process.stderr if line.startswith("listening http"))
        self.port = int(line.rsplit(":", 1)[1])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def ask(self, request):
        connection = socket.create_connection(("127.0.0.1", self.port), 10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(f"{request}\r\nHost: localhost\r\n".encode())
        return connection

    def publish(self, name):
        source = self.ask(f"PUT /stream/{name} HTTP/1.1")
        source.sendall(b"Content-Type: video/x\r\nTransfer-Encoding: chunked\r\n\r\n" if name == "ordinary" else b"Transfer-Encoding: chunked\r\n\r\n")
        return source

    def mebibytes(self):
        status = open(f"/proc/{self.process.pid}/status").read()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def send_ordinary(server):
    """Pieces of ten milliseconds, each full of the time at which it leaves."""
    source, due = server.publish("ordinary"), time.perf_counter()
    while True:
        source.sendall(chunk(struct.pack("<d", time.perf_counter()) * 1250))
        due += 0.01
        time.sleep(max(0, due - time.perf_counter()))


def watch_ordinary(server):
    selector = selectors.DefaultSelector()
    for _ in range(20):
        viewer = server.ask("GET /stream/ordinary HTTP/1.0")
        viewer.sendall(b"\r\n")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += viewer.recv(1)
        selector.register(viewer, selectors.EVENT_READ, [0])
    while True:
        for key, _ in selector.select():
            piece, now = key.fileobj.recv(1 << 16), time.perf_counter()
            key.data[0] += len(piece)
            # Reads end anywhere in a time.
            end = len(piece) - key.data[0] % 8
            if end >= 8:
                latencies.append(now - struct.unpack_from("<d", piece, end - 8)[0])


def ask_whether_it_is_healthy(server):
    connection = server.ask("GET /healthz HTTP/1.1")
    connection.sendall(b"\r\n")
    connection.recv(4096)
    while True:
        begun = time.perf_counter()
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(4096)
        answers.append(time.perf_counter() - begun)
        time.sleep(0.01)


def again_and_again(work):
    """The server may refuse the work, or end it."""
    while True:
        try:
            work()
        except OSError:
            time.sleep(0.02)


def attack(server, name, media):
    source = server.publish(name)
    for at in range(0, len(media), PIECE):
        source.sendall(chunk(media[at : at + PIECE]))


def watch(server, path):
    viewer = server.ask(f"GET /stream/{path} HTTP/1.0")
    viewer.settimeout(1)
    viewer.sendall(b"\r\n")
    while viewer.recv(1 << 18):
        pass


def attack_in_a_process(server, media):
    """Attacks in a process of its own, so that this one only measures. Returns the process's id."""
    child = os.fork()
    if child:
        return child
    works = [lambda stream=stream: attack(server, stream, media) for stream in ("one", "other")]
    works += [lambda path=path: watch(server, path) for path in ("one/live.ts", "one/live.mp4")]
    for work in works:
        threading.Thread(target=again_and_again, args=(work,), daemon=True).start()
    signal.pause()


def row(name, server):
    latencies.clear(), answers.clear()
    time.sleep(SECONDS)
    p99 = [sorted(figures)[int(len(figures) * 0.99)] * 1e3 for figures in (latencies[:], answers[:])]
    print(f"| {name} | {p99[0]:.1f} ms | {p99[1]:.1f} ms | {server.mebibytes():.0f} MiB |", flush=True)


def main():
    server = Server()
    for work in (send_ordinary, watch_ordinary, ask_whether_it_is_healthy):
        threading.Thread(target=work, args=(server,), daemon=True).start()
        time.sleep(0.3)
    print("| beside | p99 of viewers | p99 of /healthz | memory |\n|---|---|---|---|")
    row("nothing", server)
    for name in sorted(os.listdir(FOLDER)):
        attacker = attack_in_a_process(server, open(os.path.join(FOLDER, name), "rb").read())
        time.sleep(0.5)
        row(name, server)
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)
        time.sleep(0.5)
    server.process.kill()


main()
