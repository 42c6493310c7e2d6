#!/usr/bin/env python3
"""What a hand-over costs viewers: one server after another takes over while viewers watch and count.

    benches/handover.py [VIEWERS] [STREAMS] [HANDOVERS]     needs gcc; default 10000, 20, 10
    PROGRAM=PATH benches/handover.py                        another build of Tollgate

Sources send four blocks of 1 KiB a second that tell when they were sent; every viewer's bytes are counted, and some viewers check that none is missing and
take how long each block took. The longest time that a block took holds the longest pause. Every other program on the machine is in it, too.
"""
import json, os, resource, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
VIEWERS, STREAMS, HANDOVERS = (int(sys.argv[place]) if len(sys.argv) > place else default for place, default in ((1, 10000), (2, 20), (3, 10)))
EVERY = 2.0


def main():
    if "PROGRAM" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=os.path.join(HERE, ".."), check=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        load = os.path.join(folder, "fanload")
        subprocess.run(["gcc", "-O2", "-pthread", "-o", load, os.path.join(HERE, "fanload.c")], check=True)
        command = [PROGRAM, "--listen=127.0.0.1:18900", "--log=info", f"--handover=unix:{folder}/handover"]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(1)
        fans = subprocess.Popen([load, "--port", "18900", "--sources", str(STREAMS), "--viewers", str(VIEWERS), "--rate", "4096", "--chunk", "1024",
                                 "--sample", "200", "--seconds", str(int(HANDOVERS * EVERY + 6)), "--pid", str(os.getpid())], stdout=subprocess.PIPE, text=True)
        # All have come when there are as many sockets.
        while len(os.listdir(f"/proc/{server.pid}/fd")) < VIEWERS + STREAMS:
            time.sleep(0.2)
        time.sleep(2)
        took = []
        for _ in range(HANDOVERS):
            begun = time.monotonic()
            successor = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            status = server.wait(timeout=30)
            took.append(time.monotonic() - begun)
            assert status == 0, status
            server = successor
            time.sleep(EVERY)
        result = json.loads(fans.communicate()[0].strip().splitlines()[-1])
        server.kill()
        print(f"{VIEWERS} viewers of {STREAMS} streams, {HANDOVERS} hand-overs: {statistics.median(took):.2f} s each from its start until the other has left; "
              f"lost {result['lost']}, gaps {result['gaps']}; a block took p50 {result['lat_us_p50'] / 1000:.1f}, p99 {result['lat_us_p99'] / 1000:.1f}, "
              f"at most {result['lat_us_max'] / 1000:.1f} ms")


main()
