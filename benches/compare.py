#!/usr/bin/env python3
"""Tollgate beside a bare loop of kernel calls and beside Icecast, run by run in turn: prints the table of benches/README.md.

    benches/compare.py [RUNS] [SECONDS]        needs gcc; Icecast (icecast2) where it is installed
    BEFORE=PROGRAM benches/compare.py          beside another build of Tollgate, and without Icecast
"""
import json, os, shutil, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = sys.argv[2] if len(sys.argv) > 2 else "5"
BEFORE = os.environ.get("BEFORE")
# Viewers, bytes a second to each, bytes a write, and whether Icecast is to carry it too.
LOADS = [(500, 250_000, 4096, True), (1000, 250_000, 4096, True), (1000, 1_000_000, 16384, True),
         (5000, 200_000, 16384, False), (10000, 100_000, 16384, False)]
ICECAST = """<icecast><limits><clients>20000</clients><sources>10</sources><queue-size>4194304</queue-size>
<client-timeout>30</client-timeout><header-timeout>15</header-timeout><source-timeout>10</source-timeout><burst-on-connect>0</burst-on-connect></limits>
<authentication><source-password>hackme</source-password><admin-password>x</admin-password></authentication><hostname>localhost</hostname>
<listen-socket><port>{port}</port><bind-address>127.0.0.1</bind-address></listen-socket><fileserve>0</fileserve>
<paths><basedir>{dir}</basedir><logdir>{dir}</logdir><webroot>{dir}</webroot><adminroot>{dir}</adminroot></paths>
<logging><accesslog>a</accesslog><errorlog>e</errorlog><loglevel>1</loglevel></logging>
<security><chroot>0</chroot><changeowner><user>nobody</user><group>nogroup</group></changeowner></security></icecast>"""
next_port = 18000


def port():
    global next_port
    next_port += 1
    return next_port


def fanload(tool, load, *more):
    viewers, rate, chunk, _ = load
    command = [tool, "--viewers", str(viewers), "--rate", str(rate), "--chunk", str(chunk), "--seconds", SECONDS, *more]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=180).stdout
        return json.loads(out.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return None


def served(command, load, tool, own_port, *more):
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    try:
        return fanload(tool, load, "--port", str(own_port), "--pid", str(server.pid), *more)
    finally:
        server.kill()
        server.wait()


def tollgate(tool, load, program=os.path.join(HERE, "..", "target", "release", "tollgate")):
    own = port()
    return served([program, f"--listen=127.0.0.1:{own}", "--log=error"], load, tool, own)


def icecast(tool, load):
    program = shutil.which("icecast2") or shutil.which("icecast")
    if not program or not load[3] or BEFORE:
        return None
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        own = port()
        config = os.path.join(folder, "icecast.xml")
        with open(config, "w") as file:
            file.write(ICECAST.format(port=own, dir=folder))
        authorization = "Authorization: Basic c291cmNlOmhhY2ttZQ=="
        return served([program, "-c", config], load, tool, own, "--raw", "--header", authorization, "--put", "/s%d", "--get", "/s%d")


def column(results, key):
    return statistics.median(result[key] for result in results)


def main():
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=os.path.join(HERE, ".."), check=True)
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "fanload")
        subprocess.run(["gcc", "-O2", "-o", tool, os.path.join(HERE, "fanload.c"), "-lpthread"], check=True)
        print("| viewers × bytes/s, write | | CPU-s/GB | of the bare loop | Gbit/s | p50, p99, p99.9 ms | admitted, s | lost, gaps | resident MiB |")
        print("|---|---|---|---|---|---|---|---|---|")
        for load in LOADS:
            results = {"Tollgate": [], "bare loop": [], "Icecast": [], "Tollgate before": []}
            for _ in range(RUNS):
                for name, result in (("Tollgate", tollgate(tool, load)), ("Tollgate before", tollgate(tool, load, BEFORE) if BEFORE else None),
                                     ("bare loop", fanload(tool, load, "--floor", "--port", str(port()))), ("Icecast", icecast(tool, load))):
                    if result:
                        results[name].append(result)
            floors = [result["cpu_s_per_gb"] for result in results["bare loop"]]
            for name, runs in results.items():
                if not runs:
                    continue
                ratio = statistics.median(run["cpu_s_per_gb"] / floor for run, floor in zip(runs, floors))
                latencies = ", ".join(f"{column(runs, key) / 1000:.1f}" for key in ("lat_us_p50", "lat_us_p99", "lat_us_p999"))
                print(f"| {load[0]} × {load[1] // 1000} kB, {load[2] // 1024} KiB | {name} | {column(runs, 'cpu_s_per_gb'):.2f} | {ratio:.2f} | {column(runs, 'gbit_s'):.1f} "
                      f"| {latencies} | {column(runs, 'connect_s'):.2f} | {max(run['lost'] + run['refused'] for run in runs)}, {max(run['gaps'] for run in runs)} | {column(runs, 'rss_kib') / 1024:.1f} |", flush=True)
            if results["Tollgate before"]:
                pairs = zip(results["Tollgate"], results["Tollgate before"])
                ratios = sorted(now["cpu_s_per_gb"] / before["cpu_s_per_gb"] for now, before in pairs)
                print(f"CPU of before: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})", flush=True)


main()
