#!/usr/bin/env python3
"""How quick everything else stays while 8 Gbit/s are relayed: prints the second table of benches/README.md.

    benches/under_load.py [SECONDS [PART ...]]     needs gcc, and `cargo build --release`
    PROGRAM=PATH benches/under_load.py             another build of Tollgate

The load is 1,000 viewers at 1 MB/s, by fanload, whose viewers also tell of their latency. What is timed here is timed in this process,
which shares the cores with both: its own turns are part of every figure.
"""
import json, os, resource, select, socket, statistics, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
LOAD = ["--viewers", "1000", "--rate", "1000000", "--chunk", "16384"]
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([PROGRAM, "--listen=127.0.0.1:0", "--log=error", *options], stderr=subprocess.PIPE, text=True)
        line = next(line for line in self.process.stderr if line.startswith("listening http"))
        self.port = int(line.rsplit(":", 1)[1])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, target, method="GET", connection=None):
        """The bytes of a whole answer, and the milliseconds to its first and to its last."""
        own = connection or self.connect()
        begun = time.perf_counter()
        own.sendall(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = bytearray(own.recv(1 << 16))
        first = time.perf_counter() - begun
        while not is_whole(answer):
            answer += own.recv(1 << 20)
        whole = time.perf_counter() - begun
        if not connection:
            own.close()
        return bytes(answer), first * 1e3, whole * 1e3

    def cpu(self):
        return int(open(f"/proc/{self.process.pid}/schedstat").read().split()[0]) / 1e9


def is_whole(answer):
    head, _, body = bytes(answer[:4096]).partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        return answer.endswith(b"\r\n0\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return len(answer) >= answer.index(b"\r\n\r\n") + 4 + length


def percentiles(times):
    times = sorted(times)
    return ", ".join(f"{times[min(len(times) - 1, int(len(times) * part))]:.1f}" for part in (0.5, 0.99, 0.999))


def loaded(tool, server, meanwhile, *more):
    """Runs the load, and something else in the midst of it; what fanload says, and what that gives."""
    load = subprocess.Popen([tool, *LOAD, "--seconds", str(SECONDS), "--port", str(server.port), "--pid", str(server.process.pid), *more],
                            stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    try:
        result = meanwhile(time.monotonic() + SECONDS - 3)
    finally:
        out = load.communicate()[0]
    return json.loads(out.strip().splitlines()[-1]), result


def repeat(until, action, pause=0.003):
    results = []
    while time.monotonic() < until:
        results.append(action())
        time.sleep(pause)
    return results


def row(load, figure):
    print(f"| {load} | {figure} |", flush=True)


def latency(fan):
    return f"viewers' p50, p99, p99.9: {', '.join(f'{fan[key] / 1000:.1f}' for key in ('lat_us_p50', 'lat_us_p99', 'lat_us_p999'))} ms; lost {fan['lost'] + fan['refused']}, gaps {fan['gaps']}"


def add_token(server, session):
    server.ask(f"/api/add-token?type=http&sessionid={session}", "POST")


def gated(*options):
    server = Server("--token-server=127.0.0.1/32", "--rtp=off", *options)
    add_token(server, "s0")
    return server


def quick(tool):
    with gated() as server:
        fan, _ = loaded(tool, server, lambda until: time.sleep(until - time.monotonic()))
        row("nothing else", latency(fan))
    with gated() as server:
        connection = server.connect()
        fan, times = loaded(tool, server, lambda until: repeat(until, lambda: server.ask("/api/list-streams", connection=connection)[2]))
        row("`list-streams`, one after another", f"p50, p99, p99.9: {percentiles(times)} ms; {latency(fan)}")
    with gated() as server:
        fan, times = loaded(tool, server, lambda until: repeat(until, lambda: connected(server)))
        row("a new connection and its answer, one after another", f"p50, p99, p99.9: {percentiles(times)} ms; {latency(fan)}")


def connected(server):
    begun = time.perf_counter()
    server.ask("/stream/nobody")
    return (time.perf_counter() - begun) * 1e3


def many_tokens(tool):
    with gated("--tokens=200000") as server:
        connection = server.connect()
        for number in range(100_000):
            connection.sendall(f"POST /api/add-token?type=http&sessionid=token{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            if number % 50 == 49:
                answers = b""
                while answers.count(b"HTTP/1.1 201") < 50 or not answers.endswith(b"]}"):
                    answers += connection.recv(1 << 16)
        fan, calls = loaded(tool, server, lambda until: repeat(until, lambda: server.ask("/api/list-tokens"), 0.3))
        sizes = {len(answer) for answer, _, _ in calls}
        row(f"`list-tokens` with 100,000 tokens ({max(sizes) / 1e6:.1f} MB), {len(calls)} times", f"whole p50, p99, p99.9: {percentiles([whole for _, _, whole in calls])} ms; {latency(fan)}")


def at_once(tool):
    """Ten thousand connections, from several addresses, none waiting for another."""
    with Server() as server:
        def crowd(_):
            poll, clients, begun = select.epoll(), {}, time.perf_counter()
            for number in range(10_000):
                client = socket.socket()
                client.setblocking(False)
                client.bind((f"127.0.1.{1 + number % 4}", 0))
                client.connect_ex(("127.0.0.1", server.port))
                clients[client.fileno()] = client
                poll.register(client.fileno(), select.EPOLLOUT)
            times = []
            while clients and time.perf_counter() - begun < 30:
                for number, event in poll.poll(1):
                    if event & select.EPOLLOUT:
                        clients[number].send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        poll.modify(number, select.EPOLLIN)
                    elif clients[number].recv(4096).startswith(b"HTTP/1.1 200"):
                        times.append((time.perf_counter() - begun) * 1e3)
                        poll.unregister(number)
                        clients.pop(number).close()
            return times
        fan, times = loaded(tool, server, crowd)
        row("10,000 connections at once, each with a request", f"{len(times)} served, the last after {max(times):.0f} ms; {latency(fan)}")


def small_beside_large(tool):
    """Ten viewers of a small stream beside a thousand of a large one."""
    with Server() as server:
        source = server.connect()
        source.sendall(b"PUT /stream/small HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        viewers = []
        for _ in range(10):
            viewer = server.connect()
            viewer.sendall(b"GET /stream/small HTTP/1.0\r\nHost: localhost\r\n\r\n")
            viewers.append(viewer)
        poll = select.epoll()
        for viewer in viewers:
            poll.register(viewer.fileno(), select.EPOLLIN)

        def small(until):
            def piece():
                begun, waiting = time.perf_counter(), {viewer.fileno(): viewer for viewer in viewers}
                source.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
                while waiting:
                    for number, _ in poll.poll():
                        if waiting.get(number) and waiting[number].recv(1 << 16):
                            del waiting[number]
                return (time.perf_counter() - begun) * 1e3
            piece()
            return repeat(until, piece, 0.01)
        fan, times = loaded(tool, server, small)
        row("ten viewers of another stream, 1 KiB at a time", f"the last of the ten has it after p50, p99, p99.9: {percentiles(times)} ms; {latency(fan)}")
        turns = server.ask("/healthz")[0]
        assert turns.startswith(b"HTTP/1.1 200")


def flood(tool):
    """A source that sends as fast as it is read, beside list-streams and another source."""
    with gated() as server:
        add_token(server, "flood")
        source = server.connect()
        source.sendall(b"PUT /stream/flood HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000000000\r\n\r\n")
        is_over = threading.Event()

        def pour():
            piece = b"x" * (1 << 20)
            while not is_over.is_set():
                source.sendall(piece)
        thread = threading.Thread(target=pour)
        thread.start()
        connection = server.connect()
        fan, times = loaded(tool, server, lambda until: repeat(until, lambda: server.ask("/api/list-streams", connection=connection)[2]), "--viewers", "200")
        is_over.set()
        thread.join()
        row("a source that floods; 200 viewers of another, and `list-streams`", f"p50, p99, p99.9: {percentiles(times)} ms; {latency(fan)}")


def readers(tool):
    """A hundred who follow the events, while some happen: pairs of runs, one with them and one without."""
    costs, fans = {0: [], 100: []}, {0: [], 100: []}
    for _ in range(5):
        for count, own in costs.items():
            with gated() as server:
                poll, followers = select.epoll(), []
                for _ in range(count):
                    follower = server.connect()
                    follower.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    poll.register(follower.fileno(), select.EPOLLIN)
                    followers.append(follower)
                by_number = {follower.fileno(): follower for follower in followers}
                read = 0

                def happens(until):
                    nonlocal read
                    connection, number, begun = server.connect(), 0, time.monotonic()
                    while time.monotonic() < until:
                        number += 1
                        server.ask(f"/api/add-token?type=http&sessionid=other{number}", "POST", connection)
                        while (left := begun + number / 20 - time.monotonic()) > 0:
                            for ready, _ in poll.poll(left):
                                read += len(by_number[ready].recv(1 << 16))
                fan, _ = loaded(tool, server, happens)
                own.append(fan["cpu_s_per_gb"])
                fans[count].append(fan)
                assert not count or read > 100 * 1000, "nothing has come"
    pairs = [with_them / without for without, with_them in zip(*costs.values())]
    row("100 readers of events, of which 20 a second happen", f"{statistics.median(costs[100]):.3f} CPU-s/GB ({statistics.median(costs[0]):.3f} without them): in pairs {', '.join(f'{pair:.2f}' for pair in pairs)}")
    for count, own in fans.items():
        middle = sorted(own, key=lambda fan: fan["lat_us_p99"])[len(own) // 2]
        row(f"the same, {count} readers, the run with the middle p99", latency(middle))


def idle(tool):
    """Ten thousand connections that watch a silent stream, beside none: what a small stream costs then."""
    costs = []
    for connections in (0, 10_000):
        with Server("--source-idle-time=600", "--body-rate=0") as server:
            silent = server.connect()
            silent.sendall(b"PUT /stream/silent HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            crowd = []
            for _ in range(connections):
                viewer = server.connect()
                viewer.sendall(b"GET /stream/silent HTTP/1.1\r\nHost: localhost\r\n\r\n")
                crowd.append(viewer)
            time.sleep(1)
            begun, at_rest = server.cpu(), time.monotonic()
            time.sleep(3)
            rested = (server.cpu() - begun) * 1e3
            fan = json.loads(subprocess.run([tool, "--viewers", "10", "--rate", "1000000", "--chunk", "4096", "--seconds", str(SECONDS), "--port", str(server.port),
                                             "--pid", str(server.process.pid)], capture_output=True, text=True).stdout.strip().splitlines()[-1])
            costs.append((rested, fan["cpu_s_per_gb"]))
    row("10,000 idle viewers, 3 s without a byte", f"{costs[1][0]:.2f} ms of CPU ({costs[0][0]:.2f} without them)")
    row("10,000 idle viewers beside ten of a running stream", f"{costs[1][1]:.2f} CPU-s/GB ({costs[0][1]:.2f} without them)")


def main():
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "fanload")
        subprocess.run(["gcc", "-O2", "-o", tool, os.path.join(HERE, "fanload.c"), "-lpthread"], check=True)
        print("| beside it | figure |\n|---|---|")
        for part in (quick, many_tokens, at_once, small_beside_large, flood, readers, idle):
            if not sys.argv[2:] or part.__name__ in sys.argv[2:]:
                part(tool)


main()
