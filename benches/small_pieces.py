#!/usr/bin/env python3
"""What small pieces cost with and without --bundle, beside the bare loop: processor share, latency, and writes to viewers a second.

    benches/small_pieces.py [RUNS] [SECONDS]     needs gcc and `cargo build --release`; perf counts the writes, where it is installed
    FIRST="chrt -r 1" benches/small_pieces.py    runs server and load before other programs

All viewers come at once. The last column of the table says how long that took.
"""
import json, os, re, shlex, shutil, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
FIRST = shlex.split(os.environ.get("FIRST", ""))
PROGRAM = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
# Viewers, bytes a second, bytes of a piece, media type.
LOADS = [(1000, 1_000_000, 1024, "video/x"), (1000, 1_000_000, 4096, "video/x"), (1000, 1_000_000, 16384, "video/x"),
         (1000, 250_000, 1024, "video/x"), (10000, 38_912, 1024, "audio/mpeg")]
port = 17000


def writes(pid):
    """Counts the writes of a second, while the load runs."""
    if not shutil.which("perf"):
        return 0
    out = subprocess.run(["perf", "stat", "-e", "syscalls:sys_enter_sendto,syscalls:sys_enter_sendmsg", "-p", str(pid), "sleep", "1"],
                         capture_output=True, text=True).stderr
    return sum(int(count.replace(",", "")) for count in re.findall(r"([\d,]+)\s+syscalls", out))


def run(tool, load, options):
    global port
    port += 1
    viewers, rate, piece, media_type = load
    command = [*FIRST, tool, "--viewers", "4", "--crowd", str(viewers - 4), "--rate", str(rate), "--chunk", str(piece), "--type", media_type,
               "--seconds", str(SECONDS), "--port", str(port)]
    if options is None:
        done = subprocess.run([*command, "--floor"], capture_output=True, text=True, timeout=180)
        return json.loads(done.stdout.splitlines()[-1]) | {"writes": viewers * rate / piece}
    server = subprocess.Popen([*FIRST, PROGRAM, f"--listen=127.0.0.1:{port}", "--log=error", *options], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        load = subprocess.Popen([*command, "--pid", str(server.pid)], stdout=subprocess.PIPE, text=True)
        time.sleep(SECONDS - 1)
        counted = writes(server.pid)
        return json.loads(load.communicate(timeout=180)[0].splitlines()[-1]) | {"writes": counted}
    finally:
        server.kill()
        server.wait()


def main():
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "fanload")
        subprocess.run(["gcc", "-O2", "-o", tool, os.path.join(HERE, "fanload.c"), "-lpthread"], check=True)
        print("| viewers × bytes/s, piece | | a processor's share | latency p50, p99 in ms | writes/s | Gbit/s | lost, gaps | admitted in s |\n|---|---|---|---|---|---|---|---|")
        for load in LOADS:
            ways = {"bare loop": None, "`--bundle=0`": ["--bundle=0"], "with bundling": []}
            results = {name: [] for name in ways}
            for _ in range(RUNS):
                for name, options in ways.items():
                    results[name].append(run(tool, load, options))
            for name, runs in results.items():
                of = lambda key: statistics.median(result[key] for result in runs)
                print(f"| {load[0]:,} × {load[1] // 1000} kB, {load[2] // 1024} KiB, {load[3]} | {name} | {of('cpu_share'):.2f} | {of('lat_us_p50') / 1000:.1f}, {of('lat_us_p99') / 1000:.1f} "
                      f"| {of('writes'):,.0f} | {of('gbit_s'):.2f} | {max(r['lost'] + r['refused'] for r in runs)}, {max(r['gaps'] for r in runs)} | {of('crowd_s'):.2f} |", flush=True)


main()
