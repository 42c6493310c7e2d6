#!/usr/bin/env python3
"""A source that publishes by RTMP, and viewers: Tollgate sends them FLV over HTTP, nginx with libnginx-mod-rtmp sends them RTMP.

    benches/rtmp.py [RUNS] [SECONDS]        needs ffmpeg and libnginx-mod-rtmp, and `cargo build --release`
    PROGRAM=PATH benches/rtmp.py            another build of Tollgate

Prints the table of benches/README.md: the servers' processor time for each gigabyte that the viewers got. Runs of the two stand side by side.
"""
import glob, os, select, socket, statistics, struct, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 5
PROGRAM = os.environ.get("PROGRAM", os.path.join(HERE, "..", "target", "release", "tollgate"))
VIEWERS = [1, 100, 500]
# Eight megabits a second of FLV, a key frame every second; it is played again and again.
MEDIA = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-f", "lavfi", "-i", "sine=sample_rate=48000", "-t", "20", "-c:v", "libx264", "-preset", "ultrafast",
         "-g", "25", "-b:v", "7800k", "-minrate", "7800k", "-maxrate", "7800k", "-bufsize", "1M", "-x264-params", "nal-hrd=cbr", "-c:a", "aac", "-f", "flv"]
NGINX = """load_module {module}; daemon off; worker_processes 1; worker_rlimit_nofile 65536; pid {dir}/pid; error_log {dir}/error.log crit;
events {{ worker_connections 16384; }} rtmp {{ access_log off; server {{ listen 127.0.0.1:{port}; application live {{ live on; }} }} }}"""


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def start(*command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def connect(port):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port), 10)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise SystemExit(f"nobody listens on port {port}")


def text(value):
    return b"\x02" + struct.pack(">H", len(value)) + value.encode()


def message(stream, body):
    """A command of AMF0 on chunk stream 3, cut into chunks of 128 bytes."""
    cut = [body[at:at + 128] for at in range(0, len(body), 128)]
    return b"\x03\0\0\0" + len(body).to_bytes(3, "big") + b"\x14" + struct.pack("<I", stream) + b"\xc3".join(cut)


def number(value):
    return b"\0" + struct.pack(">d", value)


def play(port, name):
    viewer = connect(port)
    viewer.sendall(b"\x03" + bytes(1536))
    answer = b""
    while len(answer) < 3073:
        answer += viewer.recv(3073 - len(answer))
    application = b"\x03\0\x03app" + text("live") + b"\0\x05tcUrl" + text(f"rtmp://127.0.0.1:{port}/live") + b"\0\0\x09"
    viewer.sendall(answer[1:1537] + message(0, text("connect") + number(1) + application) + message(0, text("createStream") + number(2) + b"\x05")
                   + message(1, text("play") + number(3) + b"\x05" + text(name)))
    return viewer


def get(port, name):
    viewer = connect(port)
    viewer.sendall(f"GET /stream/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return viewer


def read(poll, sockets, seconds):
    got, buffer, until = dict.fromkeys(sockets, 0), bytearray(1 << 20), time.monotonic() + seconds
    while time.monotonic() < until:
        for ready, _ in poll.poll(0.1):
            size = sockets[ready].recv_into(buffer)
            if not size:
                raise SystemExit("a viewer was cut")
            got[ready] += size
    return got


def cpu(pid):
    """Seconds that all threads of the process have run."""
    return sum(int(open(file).read().split()[0]) for file in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9


def run(media, viewers, is_nginx):
    rtmp, http = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        if is_nginx:
            config = os.path.join(folder, "nginx.conf")
            module = "/usr/lib/nginx/modules/ngx_rtmp_module.so"
            open(config, "w").write(NGINX.format(module=module, dir=folder, port=rtmp))
            server = start("nginx", "-c", config, "-p", folder)
        else:
            server = start(PROGRAM, f"--listen=127.0.0.1:{http}", f"--rtmp=127.0.0.1:{rtmp}", "--log=error")
        connect(rtmp).close()
        source = start("ffmpeg", "-v", "quiet", "-re", "-stream_loop", "-1", "-i", media, "-c", "copy", "-f", "flv", f"rtmp://127.0.0.1:{rtmp}/live/show")
        try:
            time.sleep(2)
            pid = server.pid
            if is_nginx:
                pid = int(open(f"/proc/{pid}/task/{pid}/children").read().split()[0])
            come = [play(rtmp, "show") if is_nginx else get(http, "show") for _ in range(viewers)]
            sockets, poll = {viewer.fileno(): viewer for viewer in come}, select.epoll()
            for viewer in come:
                poll.register(viewer.fileno(), select.EPOLLIN)
            read(poll, sockets, 2)
            before = cpu(pid)
            got = read(poll, sockets, SECONDS)
            took = cpu(pid) - before
            if min(got.values()) < SECONDS * 700_000:
                raise SystemExit(f"a viewer got {min(got.values())} bytes in {SECONDS} s")
            return took / sum(got.values()) * 1e9, took / SECONDS
        finally:
            source.kill()
            server.terminate()
            server.wait()


def main():
    with tempfile.TemporaryDirectory() as folder:
        media = os.path.join(folder, "film.flv")
        subprocess.run(["ffmpeg", "-v", "error", *MEDIA, media], check=True)
        print("| viewers × 8 Mbit/s | Tollgate, CPU-s/GB; of a core | nginx-rtmp | ratio of the pairs |\n|---|---|---|---|")
        for viewers in VIEWERS:
            pairs = [(run(media, viewers, False), run(media, viewers, True)) for _ in range(RUNS)]
            ratios = sorted(own[0] / other[0] for own, other in pairs)
            median = lambda which, value: statistics.median(pair[which][value] for pair in pairs)
            print(f"| {viewers} | {median(0, 0):.2f}; {median(0, 1):.3f} | {median(1, 0):.2f}; {median(1, 1):.3f} "
                  f"| {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)


main()
