#!/usr/bin/env python3
"""What UDP clients cost, beside a bare loop of sends of as much to as many that runs at the same time (udp_loop.c).

    benches/udp_clients.py [PAIRS] [SECONDS]            needs gcc; prints the table of benches/README.md
    PROGRAM=PATH benches/udp_clients.py                 another build of Tollgate
    CALLS=1 benches/udp_clients.py                      counts Tollgate's system calls, too (strace, which makes it slow)

The stream is MPEG-TS at a constant rate with a clock reference every 20 ms, sent in real time. Nobody reads what the clients get: the
kernel's whole way is in the figures, the receivers' reading is not. CPU time is user and system time of each process, by datagram sent.
"""
import json, os, re, resource, socket, statistics, subprocess, sys, tempfile, threading, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
PROGRAM = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
CLIENTS = [int(count) for count in os.environ.get("CLIENTS", "1,10,100,1000").split(",")]
MEGABITS = [int(rate) for rate in os.environ.get("MEGABITS", "8,40").split(",")]
SEGMENTED = [word == "with" for word in os.environ.get("SEGMENTED", "with,without").split(",")]
# A kernel that cannot cut datagrams.
NO_SEGMENTS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
int setsockopt(int fd, int level, int name, const void *value, socklen_t length) {
    static int (*next)(int, int, int, const void *, socklen_t);
    if (level == 17 && name == 103) { errno = ENOPROTOOPT; return -1; }
    if (!next) next = dlsym(RTLD_NEXT, "setsockopt");
    return next(fd, level, name, value, length);
}
"""
REFERENCE_MS = 20


def transport(bits_per_second, seconds):
    """MPEG-TS at a constant rate: a clock reference every 20 ms, and payload of one PID."""
    packets = bits_per_second * REFERENCE_MS // 1000 // 8 // 188
    pat = bytes.fromhex("474000100000b00d0001c100000001e1002ab104b2")
    pmt = bytes.fromhex("475000100002b0120001c10000e101f0001be101f00015bd4d56")
    stream = [pat.ljust(188, b"\xff") + pmt.ljust(188, b"\xff")]
    for number in range(int(seconds * 1000 / REFERENCE_MS)):
        base = number * REFERENCE_MS * 90
        clock = (base << 15 | 0x7e00).to_bytes(6, "big")
        group = [bytes([0x47, 0x01, 0x01, 0x20, 183, 0x10]) + clock + b"\xff" * 176]
        for packet in range(1, packets):
            group.append(bytes([0x47, 0x01, 0x01, 0x10 | (number * packets + packet) % 16]) + b"\x55" * 184)
        stream.append(b"".join(group))
    return stream


def feed(address, stream, stop):
    source = socket.create_connection(address)
    source.sendall(b"PUT /stream/tv HTTP/1.1\r\nHost: h\r\nContent-Type: video/mp2t\r\nTransfer-Encoding: chunked\r\n\r\n")
    begun = time.monotonic()
    for number, group in enumerate(stream):
        if stop.is_set():
            break
        time.sleep(max(0, begun + number * REFERENCE_MS / 1000 - time.monotonic()))
        source.sendall(b"%x\r\n%s\r\n" % (len(group), group))
    source.close()


def sinks(count):
    """Ports in a row of which nobody reads."""
    for first in range(20000, 60000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sockets.append(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.bind(("127.0.0.1", port))
            return first, sockets
        except OSError:
            for one in sockets:
                one.close()
    sys.exit("no ports are free")


def call(url, method, body=None):
    request = urllib.request.Request(url, method=method, data=body)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read()


def figures(pid, base):
    with open(f"/proc/{pid}/schedstat") as file:
        cpu = int(file.read().split()[0]) / 1e9
    streams = json.loads(call(base + "/api/list-streams", "GET"))
    rows = [row for stream in streams for row in stream["udp"]]
    return cpu, sum(row["sent"] for row in rows), sum(row["dropped"] for row in rows)


def pair(tools, clients, rate, is_segmented, mode="rtp-udp"):
    """CPU seconds by a million datagrams: Tollgate's and the bare loop's."""
    environment = dict(os.environ)
    if not is_segmented:
        environment["LD_PRELOAD"] = tools["shim"]
    command = [PROGRAM, "--listen=127.0.0.1:0", "--rtp=127.0.0.1:0", "--token-server=127.0.0.1", f"--udp-clients={clients}", "--head-bytes=64K", "--buffer=1M", "--log=error"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    (first, held), (loop_first, loop_held) = sinks(clients), sinks(clients)
    stop = threading.Event()
    try:
        port = int(re.search(r":(\d+)$", server.stderr.readline().strip()).group(1))
        base = f"http://127.0.0.1:{port}"
        ports = list(range(first, first + clients))
        for at in range(0, clients, 100):
            names = ",".join(f"127.0.0.1:{one}" for one in ports[at:at + 100])
            kinds = "http," + mode if at == 0 else mode
            call(f"{base}/api/add-token?type={kinds}&sessionid=tv&udp-clients={names}", "POST")
        stream = transport(rate, SECONDS + 6)
        feeder = threading.Thread(target=feed, args=(("127.0.0.1", port), stream, stop))
        feeder.start()
        time.sleep(1.5)
        tracer = None
        if os.environ.get("CALLS"):
            tracer = subprocess.Popen(["strace", "-c", "-f", "-p", str(server.pid)], stderr=sys.stderr)
            time.sleep(0.5)
        loop = subprocess.Popen([tools["loop"], str(clients), str(rate), str(SECONDS), str(int(is_segmented)), str(loop_first)], stdout=subprocess.PIPE, text=True)
        before = figures(server.pid, base)
        time.sleep(SECONDS)
        after = figures(server.pid, base)
        bare = json.loads(loop.communicate()[0])
        if tracer:
            tracer.send_signal(2)
            tracer.wait()
        stop.set()
        feeder.join()
        cpu, sent, dropped = (now - then for now, then in zip(after, before))
        return cpu / max(1, sent + dropped) * 1e6, bare["cpu"] / max(1, bare["sent"]) * 1e6, sent, dropped, bare["sent"]
    finally:
        stop.set()
        server.kill()
        server.wait()
        for one in held + loop_held:
            one.close()


def main():
    if "PROGRAM" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=os.path.join(HERE, ".."), check=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        tools = {name: os.path.join(folder, name) for name in ("loop", "shim")}
        subprocess.run(["gcc", "-O2", "-o", tools["loop"], os.path.join(HERE, "udp_loop.c")], check=True)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", tools["shim"], "-x", "c", "-", "-ldl"], input=NO_SEGMENTS, text=True, check=True)
        print("| clients × Mbit/s, segmentation | Tollgate, CPU µs a datagram | bare loop | ratio (each pair) | sent of the loop's |")
        print("|---|---|---|---|---|")
        for is_segmented in SEGMENTED:
            for megabits in MEGABITS:
                for clients in CLIENTS:
                    runs = [pair(tools, clients, megabits * 1_000_000, is_segmented) for _ in range(PAIRS)]
                    ratios = sorted(run[0] / run[1] for run in runs)
                    own, bare = (statistics.median(run[place] for run in runs) for place in (0, 1))
                    share = statistics.median((run[2] + run[3]) / max(1, run[4]) for run in runs)
                    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
                    print(f"| {clients:,} × {megabits}, {'with' if is_segmented else 'without'} | {own:.2f} | {bare:.2f} "
                          f"| {statistics.median(ratios):.2f} ({each}) | {share:.2f} |", flush=True)


main()
