#!/usr/bin/env python3
"""Viewers of HLS: straight, through nginx as a cache, and beside nginx with the same segments in files. Prints the tables of benches/README.md.

    benches/hls.py [RUNS] [SECONDS] [straight | cache | all]      needs gcc, ffmpeg and nginx, and a build (cargo build --release)
"""
import json, os, re, statistics, subprocess, sys, tempfile, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = sys.argv[1:] + [None] * 3
RUNS, SECONDS, PART = int(ARGUMENTS[0] or 3), ARGUMENTS[1] or "10", ARGUMENTS[2] or "all"
PROGRAM = os.environ.get("TOLLGATE", os.path.join(HERE, "..", "target", "release", "tollgate"))
STRAIGHT = [int(n) for n in os.environ.get("STRAIGHT", "500 1000 2000 5000").split()]
CACHED = [int(n) for n in os.environ.get("CACHED", "1 100 1000 2000 10000").split()]
# Two megabits a second of MPEG-TS, a key frame every two seconds; it is played again and again.
MEDIA = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-t", "20",
         "-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-sc_threshold", "0", "-b:v", "1700k", "-minrate", "1700k", "-maxrate", "1700k", "-bufsize", "850k",
         "-x264-params", "nal-hrd=cbr", "-c:a", "aac", "-b:a", "128k", "-f", "mpegts"]
FILES = """worker_processes auto; worker_rlimit_nofile 65536; pid {dir}/pid; error_log {dir}/error.log crit; daemon off;
events {{ worker_connections 16384; }}
http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_timeout 600; keepalive_requests 1000000; {temporary}
  types {{ video/mp2t ts; application/vnd.apple.mpegurl m3u8; }} server {{ listen 127.0.0.1:{port} backlog=4096; root {dir}/www; }} }}"""
next_port = 19000


def port():
    global next_port
    next_port += 1
    return next_port


def start(command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stop(*processes):
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def await_list(own, path):
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{own}{path}", timeout=20) as answer:
                if answer.read().count(b"#EXTINF") >= 3:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("there is no list")


def load(tool, own, path, viewers, pids, *more):
    command = [tool, "--port", str(own), "--list", path, "--viewers", str(viewers), "--seconds", SECONDS, *more]
    for pid in pids:
        command += ["--pid", str(pid)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return json.loads(out.stdout.strip().splitlines()[-1])


def children(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return [int(pid) for pid in file.read().split()]


def tollgate(media):
    own = port()
    server = start([PROGRAM, f"--listen=127.0.0.1:{own}", "--log=error", "--keep-alive-time=600", "--token-server=127.0.0.1"])
    time.sleep(0.5)
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{own}/api/add-token?type=http&sessionid=demo", method="POST")).close()
    source = start(["ffmpeg", "-v", "quiet", "-re", "-stream_loop", "-1", "-i", media, "-c", "copy", "-f", "mpegts", "-method", "PUT", f"http://127.0.0.1:{own}/stream/demo"])
    await_list(own, "/stream/demo/index.m3u8")
    return own, server, source


def nginx(folder, text):
    for name in ("www/stream/demo", "cache", "temporary"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    os.chmod(folder, 0o755)
    with open(os.path.join(folder, "nginx.conf"), "w") as file:
        file.write(text)
    return start(["nginx", "-c", os.path.join(folder, "nginx.conf"), "-p", folder])


def temporary(folder):
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return " ".join(f"{kind}_temp_path {folder}/temporary/{kind};" for kind in kinds) + " "


def straight(tool, media, viewers, *more):
    own, server, source = tollgate(media)
    try:
        return load(tool, own, "/stream/demo/index.m3u8", viewers, [server.pid], *more)
    finally:
        stop(source, server)


def files(tool, media, viewers, *more):
    """nginx, with segments that ffmpeg writes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        own = port()
        server = nginx(folder, FILES.format(dir=folder, port=own, temporary=temporary(folder)))
        place = os.path.join(folder, "www", "stream", "demo")
        source = start(["ffmpeg", "-v", "quiet", "-re", "-stream_loop", "-1", "-i", media, "-c", "copy", "-f", "hls", "-hls_time", "2", "-hls_list_size", "6",
                        "-hls_delete_threshold", "6", "-hls_flags", "delete_segments", "-hls_segment_filename", f"{place}/part-%d.ts", f"{place}/index.m3u8"])
        try:
            await_list(own, "/stream/demo/index.m3u8")
            return load(tool, own, "/stream/demo/index.m3u8", viewers, [*children(server), server.pid], *more)
        finally:
            stop(source, server)


def asked(own):
    with urllib.request.urlopen(f"http://127.0.0.1:{own}/metrics") as answer:
        text = answer.read().decode()
    return [int(re.search(rf"^tollgate_{name}_total (\d+)", text, re.M)[1]) for name in ("playlists", "segments")]


def cached(tool, media, viewers):
    """Through nginx as examples/nginx-hls.conf has it, but for its places."""
    own, server, source = tollgate(media)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        front = port()
        text = open(os.path.join(HERE, "..", "examples", "nginx-hls.conf")).read()
        text = text.replace("/var/cache/nginx/hls", f"{folder}/cache").replace("127.0.0.1:8000", f"127.0.0.1:{own}").replace("listen 80;", f"listen 127.0.0.1:{front} backlog=4096;")
        text = text.replace("http {", f"http {{ access_log off; keepalive_timeout 600; keepalive_requests 1000000; {temporary(folder)}", 1)
        cache = nginx(folder, f"pid {folder}/pid; error_log {folder}/error.log crit; daemon off;\n{text}")
        try:
            await_list(front, "/stream/demo/index.m3u8")
            before, since = asked(own), time.time()
            result = load(tool, front, "/stream/demo/index.m3u8", viewers, [*children(cache), cache.pid])
            took = time.time() - since
            result["origin"] = [(now - then) / took for now, then in zip(asked(own), before)]
            return result
        finally:
            stop(source, cache, server)


def middle(results, key):
    return statistics.median(result[key] for result in results)


def row(viewers, name, runs):
    each = max((middle(runs, "rss_kib") - middle(runs, "rss_before_kib")) / viewers, 0)
    print(f"| {viewers:,} | {name} | {middle(runs, 'gbit_s'):.2f} | {middle(runs, 'segments_s'):.0f} of {middle(runs, 'due_segments_s'):.0f} | {middle(runs, 'cpu_s_per_gb'):.2f} "
          f"| {middle(runs, 'segment_ms_p50'):.1f}, {middle(runs, 'segment_ms_p99'):.1f} | {middle(runs, 'list_ms_p50'):.1f}, {middle(runs, 'list_ms_p99'):.1f} "
          f"| {each:.1f} | {max(run['refused'] for run in runs)}, {max(run['lost'] for run in runs)} |", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        tool, media = os.path.join(folder, "hlsload"), os.path.join(folder, "media.ts")
        subprocess.run(["gcc", "-O2", "-o", tool, os.path.join(HERE, "hlsload.c")], check=True)
        subprocess.run(["ffmpeg", "-v", "error", *MEDIA, media], check=True)
        if PART in ("straight", "all"):
            print("| viewers | | Gbit/s | segments/s | CPU-s/GB | a segment, ms p50, p99 | a list | KiB a viewer | refused, lost |\n|---|---|---|---|---|---|---|---|---|")
            for viewers in STRAIGHT:
                pairs = [(straight(tool, media, viewers), files(tool, media, viewers)) for _ in range(RUNS)]
                row(viewers, "Tollgate", [own for own, _ in pairs])
                row(viewers, "nginx, files", [other for _, other in pairs])
                ratios = sorted(own["cpu_s_per_gb"] / other["cpu_s_per_gb"] for own, other in pairs)
                print(f"CPU beside nginx: {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); load {os.getloadavg()[0]:.1f}", flush=True)
        if PART in ("cache", "all"):
            print("| viewers of nginx | Gbit/s | segments/s | origin's lists/s, segments/s | CPU-s/GB of nginx | a segment, ms p50, p99 | refused, lost |\n|---|---|---|---|---|---|---|")
            for viewers in CACHED:
                runs = [cached(tool, media, viewers) for _ in range(RUNS)]
                lists, segments = (statistics.median(run["origin"][index] for run in runs) for index in (0, 1))
                print(f"| {viewers:,} | {middle(runs, 'gbit_s'):.2f} | {middle(runs, 'segments_s'):.1f} of {middle(runs, 'due_segments_s'):.1f} | {lists:.2f}, {segments:.2f} "
                      f"| {middle(runs, 'cpu_s_per_gb'):.2f} | {middle(runs, 'segment_ms_p50'):.1f}, {middle(runs, 'segment_ms_p99'):.1f} "
                      f"| {max(run['refused'] for run in runs)}, {max(run['lost'] for run in runs)} |", flush=True)


main()
