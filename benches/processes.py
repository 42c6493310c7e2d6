#!/usr/bin/env python3
"""Throughput of 1, 2 and 4 processes side by side, each with a session of its own: prints the third table of benches/README.md.

    benches/processes.py [RUNS] [SECONDS]        needs gcc, and `cargo build --release`

2,000 viewers in all, each of which takes what it is given; the sources send as fast as they are read. The load generators share the
cores with the servers: on few cores it is they that end it.
"""
import json, os, statistics, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "target", "release", "tollgate")
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SECONDS = sys.argv[2] if len(sys.argv) > 2 else "5"
VIEWERS = 2000


def start():
    server = subprocess.Popen([PROGRAM, "--listen=127.0.0.1:0", "--log=error"], stderr=subprocess.PIPE, text=True)
    line = next(line for line in server.stderr if line.startswith("listening http"))
    return server, line.strip().rsplit(":", 1)[1]


def run(tool, processes):
    servers = [start() for _ in range(processes)]
    try:
        loads = [subprocess.Popen([tool, "--viewers", str(VIEWERS // processes), "--rate", "0", "--chunk", "65536", "--seconds", SECONDS, "--port", port, "--pid", str(server.pid)],
                                  stdout=subprocess.PIPE, text=True) for server, port in servers]
        results = [json.loads(load.communicate()[0].strip().splitlines()[-1]) for load in loads]
    finally:
        for server, _ in servers:
            server.kill()
            server.wait()
    return sum(result["gbit_s"] for result in results), statistics.mean(result["cpu_s_per_gb"] for result in results), sum(result["lost"] + result["refused"] for result in results)


def main():
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "fanload")
        subprocess.run(["gcc", "-O2", "-o", tool, os.path.join(HERE, "fanload.c"), "-lpthread"], check=True)
        print("| processes | Gbit/s in all | CPU-s/GB | lost |\n|---|---|---|---|")
        runs = {1: [], 2: [], 4: []}
        for _ in range(RUNS):
            for processes, results in runs.items():
                results.append(run(tool, processes))
        for processes, results in runs.items():
            print(f"| {processes} | {statistics.median(result[0] for result in results):.1f} | {statistics.median(result[1] for result in results):.2f} | {max(result[2] for result in results)} |")


main()
