#!/usr/bin/env python3
"""What a hand-over costs: one server after another takes over while viewers watch and count.

    benches/handover.py [VIEWERS] [STREAMS] [HANDOVERS]     needs gcc; default 10000, 20, 10
    benches/handover.py 10000 20 10 all                     and RTP both ways, players of HLS, readers of the events, calls (handover_company.py; needs ffmpeg)
    PROGRAM=PATH benches/handover.py                        another build of Tollgate

Sources send four blocks of 1 KiB a second that tell when they were sent; every viewer checks that none is missing, and takes how long each block took. The longest time that a
block took holds the longest pause in which nobody was written to. Every other program on the machine is in it, too. Memory is what both processes together have resident
(`Rss` of smaps_rollup, without what is of the program's file), looked at every few milliseconds.
"""
import json, os, re, resource, statistics, subprocess, sys, tempfile, threading, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
VIEWERS, STREAMS, HANDOVERS = (int(sys.argv[place]) if len(sys.argv) > place else default for place, default in ((1, 10000), (2, 20), (3, 10)))
WITH_ALL = "all" in sys.argv[4:]
PORT, RTP_PORT, EVERY = 18900, 18902, 2.0


def resident(pid):
    """MiB that a process has resident."""
    try:
        text = open(f"/proc/{pid}/status").read()
        return sum(int(found) for found in re.findall(r"(?:RssAnon|RssShmem):\s+(\d+)", text)) / 1024
    except (OSError, ValueError):
        return 0.0


class Peak(threading.Thread):
    """The most that two processes have resident together."""

    def __init__(self, *pids):
        super().__init__(daemon=True)
        self.pids, self.most, self.stops = pids, 0.0, False
        self.start()

    def run(self):
        while not self.stops:
            self.most = max(self.most, sum(map(resident, self.pids)))
            time.sleep(0.004)


def await_ready(pid):
    # All have come when there are as many sockets.
    while len(os.listdir(f"/proc/{pid}/fd")) < VIEWERS + STREAMS:
        time.sleep(0.2)


def main():
    if "PROGRAM" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=os.path.join(HERE, ".."), check=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        load = os.path.join(folder, "fanload")
        subprocess.run(["gcc", "-O2", "-pthread", "-o", load, os.path.join(HERE, "fanload.c")], check=True)
        log = open(os.path.join(folder, "log"), "w+")
        command = [PROGRAM, f"--listen=127.0.0.1:{PORT}", "--log=info", f"--handover=unix:{folder}/handover"]
        seconds = int(HANDOVERS * (EVERY + 0.5) + 6)
        if WITH_ALL:
            command += ["--token-server=127.0.0.0/8", f"--rtp=127.0.0.1:{RTP_PORT}", f"--token-file={folder}/tokens", "--hls-segment=1"]
        server = subprocess.Popen(command, stderr=log)
        time.sleep(1)
        for stream in range(STREAMS if WITH_ALL else 0):
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{PORT}/api/add-token?type=http&sessionid=s{stream}", method="POST"))
        fans = subprocess.Popen([load, "--port", str(PORT), "--sources", str(STREAMS), "--viewers", str(VIEWERS), "--rate", "4096", "--chunk", "1024",
                                 "--sample", str(VIEWERS), "--seconds", str(seconds + 10 * WITH_ALL), "--pid", str(os.getpid())], stdout=subprocess.PIPE, text=True)
        await_ready(server.pid)
        company = None
        if WITH_ALL:
            company = subprocess.Popen([os.path.join(HERE, "handover_company.py"), str(PORT), str(RTP_PORT), str(seconds - 4)], stdout=subprocess.PIPE, text=True)
            assert company.stdout.readline() == "ready\n"
        time.sleep(2)
        took, peaks, held = [], [], []
        for _ in range(HANDOVERS):
            before, begun = resident(server.pid), time.monotonic()
            successor = subprocess.Popen(command, stderr=log)
            peak = Peak(server.pid, successor.pid)
            status = server.wait(timeout=30)
            took.append(time.monotonic() - begun)
            assert status == 0, status
            peak.stops = True
            time.sleep(EVERY)
            peaks.append(peak.most)
            held.append(before + resident(successor.pid))
            server = successor
        result = json.loads(fans.communicate()[0].strip().splitlines()[-1])
        log.seek(0)
        still = [int(found) for found in re.findall(r"event=handed-over .*still_ms=(\d+)", log.read())]
        print(f"{VIEWERS} viewers of {STREAMS} streams, {HANDOVERS} hand-overs: {statistics.median(took):.2f} s each from its start until the other has left; "
              f"nobody was served for {statistics.median(still):.0f} ms each, at most {max(still)}; "
              f"lost {result['lost']}, gaps {result['gaps']}; a block took p50 {result['lat_us_p50'] / 1000:.1f}, p99 {result['lat_us_p99'] / 1000:.1f}, "
              f"at most {result['lat_us_max'] / 1000:.1f} ms; both hold at most {max(peaks):.0f} MiB, {max(peak / both for peak, both in zip(peaks, held)):.2f} of "
              f"what the one held before and the other after")
        if company:
            told = json.loads(company.communicate()[0])
            for what, (count, wrong) in told["noticed"].items():
                print(f"  {what}: {count}, of which {wrong} wrong or missing")
            print(f"  the film's source {'left' if told['film_left'] else 'noticed nothing'}", *told["why"], sep="\n  ")
        server.kill()


main()
