#!/usr/bin/env python3
"""What HAProxy costs in front: the same load straight to a relay and through `examples/haproxy.cfg`, in pairs.

    benches/through_haproxy.py [RUNS] [SECONDS]        needs gcc, haproxy, and `cargo build --release`

Prints CPU time for each GB that reached the viewers, of the relay and of HAProxy, and the viewers' latency.
"""
import json, os, socket, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "target", "release", "tollgate")
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SECONDS = sys.argv[2] if len(sys.argv) > 2 else "5"
VIEWERS, RATE = 500, 250_000


def start():
    server = subprocess.Popen([PROGRAM, "--listen=127.0.0.1:0", "--log=error", "--proxy-protocol=127.0.0.2"], stderr=subprocess.PIPE, text=True)
    line = next(line for line in server.stderr if line.startswith("listening http"))
    return server, line.strip().rsplit(":", 1)[1]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def cpu(pid):
    """Seconds that a process has run."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(tool, port, servers, proxy):
    before = [cpu(server.pid) for server in servers], cpu(proxy.pid)
    load = subprocess.run([tool, "--viewers", str(VIEWERS), "--rate", str(RATE), "--chunk", "4096", "--seconds", SECONDS, "--port", port, "--put", "/stream/tv", "--get", "/stream/tv", "--pid", str(servers[0].pid)],
                          stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(load.stdout.strip().splitlines()[-1])
    gigabytes = result["gbit_s"] * float(SECONDS) / 8
    relays = sum(cpu(server.pid) for server in servers) - sum(before[0])
    return relays / gigabytes, (cpu(proxy.pid) - before[1]) / gigabytes, result["lat_us_p99"] / 1000, result["gbit_s"], result["lost"] + result["refused"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "fanload")
        subprocess.run(["gcc", "-O2", "-o", tool, os.path.join(HERE, "fanload.c"), "-lpthread"], check=True)
        relays = [start() for _ in range(4)]
        servers, front = [server for server, _ in relays], free_port()
        places = {f"RELAY_{number + 1}": f"127.0.0.1:{port}" for number, (_, port) in enumerate(relays)}
        proxy = subprocess.Popen(["haproxy", "-db", "-f", os.path.join(HERE, "../examples/haproxy.cfg")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 env={**os.environ, **places, "FRONT": f"127.0.0.1:{front}"})
        time.sleep(2)
        runs = {"straight": [], "through HAProxy": []}
        try:
            for number in range(RUNS):
                order = [("straight", relays[0][1]), ("through HAProxy", front)]
                for way, port in order[::1 if number % 2 else -1]:
                    runs[way].append(run(tool, port, servers, proxy))
        finally:
            for process in [*servers, proxy]:
                process.kill()
                process.wait()
        print("| way | CPU-s/GB of the relay | of HAProxy | p99 ms | Gbit/s | lost |\n|---|---|---|---|---|---|")
        for way, results in runs.items():
            columns = [statistics.median(column) for column in zip(*results)]
            print(f"| {way} | {columns[0]:.2f} | {columns[1]:.2f} | {columns[2]:.1f} | {columns[3]:.2f} | {max(result[4] for result in results)} |")


main()
