//! Multicast between network namespaces that each test makes: groups that come in and go out, by
//! IPv4 and IPv6. They need root; `.ci/run` runs them where it is.
//!
//! ```text
//!   server ── near ─────────── near ── host A
//!        ├─── far ──────────── far ─── host B      (a pair of virtual Ethernet devices each)
//!        └─── uplink ── router ── downlink ── host C
//! ```

mod support;

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};

use support::datagrams::{datagram, transport};
use support::streaming::chunk;
use support::until;

/// Three hosts: a server, and two that each have a cable to it.
struct Network {
    name: String,
}

/// A program in a namespace, which is killed at the end.
struct Program(Child);

const HOSTS: [&str; 5] = ["server", "a", "b", "router", "c"];

fn run(line: &str) {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().expect("a program"));
    let output = command.args(words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}

impl Network {
    fn new(test: &str) -> Network {
        let name = format!("tg{}{test}", std::process::id());
        let network = Network { name };
        for host in HOSTS {
            run(&format!("ip netns add {}", network.of(host)));
            network.ip(host, "link set lo up");
        }
        let links = [
            ("server", "a", "near"),
            ("server", "b", "far"),
            ("server", "router", "uplink"),
            ("router", "c", "downlink"),
        ];
        for (number, (host, other, link)) in links.into_iter().enumerate() {
            let (one, two) = (network.of(host), network.of(other));
            run(&format!(
                "ip link add {link} netns {one} type veth peer name {link} netns {two}"
            ));
            for (at, last) in [(host, 1), (other, 2)] {
                network.ip(at, &format!("addr add 10.77.{number}.{last}/24 dev {link}"));
                network.ip(
                    at,
                    &format!("addr add fd77:{number}::{last}/64 dev {link} nodad"),
                );
                network.ip(at, &format!("link set {link} up"));
                network.ip(
                    at,
                    &format!("route add 224.0.0.0/4 dev {link} metric {}", 10 + number),
                );
            }
        }
        for (at, net, by) in [("server", 3, "77:2::2"), ("c", 2, "77:3::1")] {
            let (net4, by4) = (
                format!("10.77.{net}.0/24"),
                by.replace("77:", "10.77.").replace("::", "."),
            );
            network.ip(at, &format!("route add {net4} via {by4}"));
            network.ip(at, &format!("route add fd77:{net}::/64 via fd{by}"));
        }
        network
    }

    /// Makes the router forward groups (smcroute): one in each direction, by IPv4 and IPv6, from one
    /// sender each. It lowers the TTL by one.
    fn forward_groups(&self) -> Program {
        let folder = std::env::temp_dir();
        let at = |kind: &str| format!("{}/{}.{kind}", folder.display(), self.name);
        let routes = "phyint uplink enable\nphyint downlink enable\n\
                      mroute from uplink source 10.77.2.1 group 239.7.7.7 to downlink\n\
                      mroute from uplink source fd77:2::1 group ff3e::7777 to downlink\n\
                      mroute from downlink source 10.77.3.2 group 239.7.7.7 to uplink\n\
                      mroute from downlink source fd77:3::2 group ff3e::7777 to uplink\n";
        std::fs::write(at("conf"), routes).expect("a file");
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            let set = format!("echo 1 > /proc/sys/net/{setting}");
            self.program("router", "sh", &["-c", &set]).output();
        }
        let (file, pid, socket) = (at("conf"), at("pid"), at("sock"));
        let arguments = [
            "-n", "-N", "-l", "err", "-f", &file, "-P", &pid, "-u", &socket,
        ];
        let router = self.program("router", "smcrouted", &arguments);
        until("the router has its routes", || {
            let has_both = |family: &str, group: &str| {
                let arguments = [family, "mroute", "show", "table", "all"];
                let list = self.program("router", "ip", &arguments).output();
                String::from_utf8_lossy(&list).matches(group).count() == 2
            };
            (has_both("-4", "239.7.7.7") && has_both("-6", "ff3e::7777")).then_some(())
        });
        router
    }

    fn of(&self, host: &str) -> String {
        format!("{}{host}", self.name)
    }

    fn ip(&self, host: &str, what: &str) {
        run(&format!("ip -n {} {what}", self.of(host)));
    }

    /// A program on one of the hosts.
    fn program(&self, host: &str, program: &str, arguments: &[&str]) -> Program {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(host), program]);
        let child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        Program(child.stdin(Stdio::null()).spawn().expect("it starts"))
    }

    fn python(&self, host: &str, script: &str) -> Program {
        self.program(host, "python3", &["-c", script])
    }

    /// A server.
    fn start(&self, options: &[&str]) -> Program {
        // Nobody asks for a stream as often as a machine of its own would.
        let fixed = [
            "--token-server=127.0.0.1",
            "--listen=127.0.0.1:8000",
            "--source-idle-time=600",
        ];
        let program = support::server::program();
        self.program("server", &program, &[&fixed[..], options].concat())
    }

    /// The server, once it listens.
    fn serve(&self, options: &[&str]) -> Program {
        let server = self.start(options);
        until("the server listens", || {
            let answer = self.ask("GET", "/healthz");
            answer.filter(|(status, _)| *status == 200)
        });
        server
    }

    /// The server's answer to a request from its own host: a status and a body.
    fn ask(&self, method: &str, target: &str) -> Option<(u16, String)> {
        let request = format!("{method} {target} HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n");
        let script = format!(
            "import socket,sys\ns=socket.create_connection(('127.0.0.1',8000))\ns.sendall(b'{request}')\nwhile True:\n  b=s.recv(65536)\n  if not b: break\n  sys.stdout.buffer.write(b)"
        );
        let answer = String::from_utf8(self.python("server", &script).output()).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }

    /// A source that publishes this over HTTP, and stays.
    fn put(&self, media: &[Vec<u8>]) -> Program {
        let body: String = chunk(&media.concat())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let put = format!(
            "import socket,time\ns=socket.create_connection(('127.0.0.1',8000))\ns.sendall(b'PUT /stream/tv HTTP/1.1\\r\\nHost: h\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n'+bytes.fromhex('{body}'))\ntime.sleep(30)"
        );
        self.python("server", &put)
    }

    fn admit(&self, session: &str, types: &str, client: &str) {
        let target =
            format!("/api/add-token?type={types}&sessionid={session}&udp-clients={client}");
        let (status, body) = self.ask("POST", &target).expect("an answer");
        assert_eq!(status, 201, "{body}");
    }

    fn stream(&self, session: &str) -> Option<serde_json::Value> {
        let (_, body) = self.ask("GET", "/api/list-streams")?;
        let streams: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        let mut streams = streams.as_array()?.iter();
        streams
            .rfind(|stream| stream["sessionid"] == session)
            .cloned()
    }

    fn dropped(&self, reason: &str) -> u64 {
        let (_, text) = self.ask("GET", "/metrics").expect("an answer");
        let row = format!("tollgate_datagrams_dropped_total{{reason=\"{reason}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&row));
        value.expect("a row").parse().expect("a number")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in HOSTS {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.of(host)])
                .status();
        }
    }
}

impl Program {
    /// What it writes until it ends.
    fn output(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut stdout = self.0.stdout.take().expect("it is piped");
        stdout.read_to_end(&mut bytes).expect("it is read");
        bytes
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Twenty datagrams' worth of a transport stream goes out of this, and some stays.
fn media() -> Vec<Vec<u8>> {
    let each = (0..40).map(|number| transport(number, Some(f64::from(number) * 0.02)));
    each.collect()
}

/// Sends datagrams to a group, one after another, from an address by an interface.
fn sender(group: &str, from: &str, datagrams: &[Vec<u8>]) -> String {
    sender_with(group, from, datagrams, 1)
}

/// The same with a TTL.
fn sender_with(group: &str, from: &str, datagrams: &[Vec<u8>], hops: u8) -> String {
    let group: SocketAddr = group.parse().expect("an address");
    let hex: Vec<String> = datagrams
        .iter()
        .map(|datagram| datagram.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let family = if group.is_ipv4() {
        "AF_INET"
    } else {
        "AF_INET6"
    };
    let option = if group.is_ipv4() { "0,33" } else { "41,18" };
    format!(
        "import socket\ns=socket.socket(socket.{family},socket.SOCK_DGRAM)\ns.bind(('{from}',6000))\ns.setsockopt({option},{hops})\ng=('{}',{})\nfor d in '{}'.split():\n  s.sendto(bytes.fromhex(d),g)",
        group.ip(),
        group.port(),
        hex.join(" ")
    )
}

/// Joins a group on an interface, says that it has, and prints the hop count, the traffic class and
/// the bytes of each datagram that comes.
fn receiver(group: &str, interface: &str, count: usize) -> String {
    let group: SocketAddr = group.parse().expect("an address");
    let (ip, port) = (group.ip(), group.port());
    let set_up = if group.is_ipv4() {
        format!(
            "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.bind(('{ip}',{port}))\ns.setsockopt(0,35,struct.pack('4s4si',socket.inet_aton('{ip}'),bytes(4),socket.if_nametoindex('{interface}')))\ns.setsockopt(0,12,1)\ns.setsockopt(0,13,1)"
        )
    } else {
        format!(
            "s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\ns.bind(('{ip}',{port},0,socket.if_nametoindex('{interface}')))\ns.setsockopt(41,20,socket.inet_pton(socket.AF_INET6,'{ip}')+struct.pack('i',socket.if_nametoindex('{interface}')))\ns.setsockopt(41,51,1)\ns.setsockopt(41,66,1)"
        )
    };
    format!(
        "import socket,struct,sys\n{set_up}\nprint('joined',flush=True)\nfor _ in range({count}):\n  d,a,f,w=s.recvmsg(2048,512)\n  h=c=-1\n  for l,t,v in a:\n    n=v[0]\n    if t in (2,52): h=n\n    if t in (1,67): c=n\n  print(h,c,d.hex(),flush=True)"
    )
}

/// Waits for the first line that a program writes.
fn await_line(program: &mut Program) {
    let stdout = program.0.stdout.as_mut().expect("it is piped");
    let mut byte = [0];
    while byte != *b"\n" {
        stdout.read_exact(&mut byte).expect("a line");
    }
}

fn rtp(count: u16, first: u16, ssrc: u32) -> Vec<Vec<u8>> {
    let each = (0..count).map(|number| {
        let payload = transport(number as u8, Some(f64::from(number) * 0.02));
        datagram(33, first.wrapping_add(number), ssrc, &payload)
    });
    each.collect()
}

const FAMILIES: [(&str, [&str; 3], &str); 2] = [
    (
        "239.7.7.7",
        ["10.77.0.1", "10.77.0.2", "10.77.1.2"],
        "239.7.7.7:5004",
    ),
    (
        "ff3e::7777",
        ["fd77:0::1", "fd77:0::2", "fd77:1::2"],
        "[ff3e::7777]:5004",
    ),
];

/// Sends RTP to a group until it is killed.
fn endless_sender(group: &str, from: &str) -> String {
    format!(
        "import time,struct\n{}\nn=65500\nwhile True:\n  n=(n+1)&65535\n  s.sendto(struct.pack('>BBHII',128,33,n,9,7)+(b'G\\x01\\0\\x10'+bytes(184))*7,g)\n  time.sleep(.01)",
        sender(group, from, &[])
    )
}

/// Datagrams to a joined group are the source of the session whose token names the group. If two
/// hosts send, the first is the source. The other's datagrams are dropped under any SSRC.
#[test]
#[ignore = "makes network namespaces, which needs root"]
fn a_group_comes_in() {
    for (number, (ip, hosts, group)) in FAMILIES.into_iter().enumerate() {
        let network = Network::new(&format!("in{number}"));
        let joins = [format!("--join={ip}%near"), format!("--join={ip}%far")];
        let _server = network.serve(&[&joins[0], &joins[1]]);
        network.admit("tv", "rtp-udp", group);
        let _encoder = network.python("a", &endless_sender(group, hosts[1]));
        let stream = until("it runs", || network.stream("tv"));
        assert_is_from(&stream, hosts[1]);
        let stranger = sender(group, hosts[2], &rtp(40, 65_500, 7));
        network.python("b", &stranger).output();
        until("the other is dropped", || {
            (network.dropped("second_source") == 40).then_some(())
        });
        let later = until("the first goes on", || {
            let later = network.stream("tv")?;
            (later["bytes_received"] != stream["bytes_received"]).then_some(later)
        });
        assert_is_from(&later, hosts[1]);
        assert_eq!(later["started_at"], stream["started_at"]);
        assert_eq!(network.dropped("stranger"), 0);
    }
}

fn assert_is_from(stream: &serde_json::Value, host: &str) {
    let from = stream["source"]["address"].as_str().expect("an address");
    let from: SocketAddr = from.parse().expect("an address");
    let host: IpAddr = host.parse().expect("an address");
    assert_eq!(from.ip(), host);
}

/// If the token names a source, datagrams of other hosts are dropped.
#[test]
#[ignore = "makes network namespaces, which needs root"]
fn a_group_of_one_source_comes_in() {
    for (number, (ip, hosts, group)) in FAMILIES.into_iter().enumerate() {
        let network = Network::new(&format!("ssm{number}"));
        let joins = [
            format!("--join={ip}@{}%near", hosts[1]),
            format!("--join={ip}@{}%far", hosts[1]),
        ];
        let _server = network.serve(&[&joins[0], &joins[1]]);
        network.admit("tv", "rtp-udp", group);
        network
            .python("b", &sender(group, hosts[2], &rtp(30, 1, 7)))
            .output();
        network
            .python("a", &sender(group, hosts[1], &rtp(30, 1, 7)))
            .output();
        let stream = until("it runs", || network.stream("tv"));
        assert_is_from(&stream, hosts[1]);
        assert_eq!(network.dropped("second_source"), 0);
        network
            .python("b", &sender(group, hosts[2], &rtp(30, 31, 7)))
            .output();
        until("all of the one has come, and no more", || {
            let stream = network.stream("tv")?;
            (stream["bytes_received"] == 30 * 7 * 188).then_some(())
        });
    }
}

/// A group that no token names is nobody's, and one that nobody has joined here is not heard even
/// if another program of this host has joined it.
#[test]
#[ignore = "makes network namespaces, which needs root"]
fn a_group_that_nobody_named_is_dropped() {
    let network = Network::new("no");
    let _server = network.serve(&["--join=239.7.7.7%near"]);
    let (joined, other) = ("239.7.7.7:5004", "239.7.7.8:5004");
    network.admit("tv", "rtp-udp", "10.77.0.2:6000");
    let mut program = network.python("server", &receiver("239.7.7.8:5999", "near", 1));
    await_line(&mut program);
    network
        .python("a", &sender(other, "10.77.0.2", &rtp(30, 1, 7)))
        .output();
    network
        .python("a", &sender(joined, "10.77.0.2", &rtp(30, 1, 7)))
        .output();
    until("they are dropped", || {
        (network.dropped("stranger") == 30).then_some(())
    });
    assert!(network.stream("tv").is_none());
}

/// A body goes out to a group, by the interface and with the TTL and the DSCP that the options say. A
/// successor with other options that cannot start changes nothing, though it had the socket.
#[test]
#[ignore = "makes network namespaces, which needs root"]
fn a_group_goes_out() {
    for (number, (ip, _, group)) in FAMILIES.into_iter().enumerate() {
        let network = Network::new(&format!("out{number}"));
        let to = format!("--rtp-to={ip}");
        let handover = std::env::temp_dir().join(format!("tollgate-{}", network.name));
        let handover = format!("--handover=unix:{}", handover.display());
        let common = [&to, &*handover];
        let _server = network.serve(&[&common[..], &["--multicast=7%far", "--dscp=34"]].concat());
        let others = ["--multicast=9%near", "--dscp=10", "--join=239.1.2.3%none"];
        let mut failed = network.start(&[&common[..], &others].concat());
        let status = until("it fails", || failed.0.try_wait().expect("a child"));
        assert!(!status.success());
        network.admit("tv", "http,rtp-udp", group);
        let mut inside = network.python("b", &receiver(group, "far", 20));
        let mut outside = network.python("a", &receiver(group, "near", 1));
        await_line(&mut inside);
        await_line(&mut outside);
        let media = media();
        let _source = network.put(&media);
        let output = inside.output();
        let text = String::from_utf8(output).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 20);
        for (line, media) in lines.iter().zip(&media) {
            let hex: String = media.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(line.starts_with(&format!("7 {} ", 34 << 2)), "{line:.20}");
            assert!(line.ends_with(&hex));
        }
        assert!(
            matches!(outside.0.try_wait(), Ok(None)),
            "the other interface got some"
        );
    }
}

/// Datagrams with a TTL of 2 pass one router. With a TTL of 1 they do not leave their network. This
/// holds in both directions.
#[test]
#[ignore = "makes network namespaces, which needs root; and needs smcroute"]
fn groups_pass_as_many_routers_as_their_ttl_says() {
    for (number, (ip, _, group)) in FAMILIES.into_iter().enumerate() {
        let network = Network::new(&format!("ttl{number}"));
        let _router = network.forward_groups();
        let media = media();
        for (hops, types, header_bytes) in [(1, "http,rtp-udp", 12), (2, "http,udp", 0)] {
            let (to, out) = (
                format!("--rtp-to={ip}"),
                format!("--multicast={hops}%uplink"),
            );
            let _server = network.serve(&[&to, &out]);
            network.admit("tv", types, group);
            let mut beyond = network.python("c", &receiver(group, "downlink", 20));
            let mut neighbour = network.python("router", &receiver(group, "uplink", 20));
            await_line(&mut beyond);
            await_line(&mut neighbour);
            let _source = network.put(&media);
            assert_got(neighbour, hops, header_bytes, &media);
            if hops > 1 {
                assert_got(beyond, hops - 1, header_bytes, &media);
            } else {
                let has_ended = beyond.0.try_wait();
                assert!(matches!(has_ended, Ok(None)), "it passed the router");
                drop(beyond);
            }
        }
        let from = if group.starts_with('[') {
            "fd77:3::2"
        } else {
            "10.77.3.2"
        };
        let _server = network.serve(&[&format!("--join={ip}@{from}%uplink")]);
        network.admit("tv", "rtp-udp", group);
        for (hops, first) in [(1, 100), (2, 1)] {
            let datagrams = rtp(30, first, 7);
            network
                .python("c", &sender_with(group, from, &datagrams, hops))
                .output();
        }
        let stream = until("what may pass has come, and no more", || {
            let stream = network.stream("tv")?;
            (stream["bytes_received"] == 30 * 7 * 188).then_some(stream)
        });
        assert_is_from(&stream, from);
    }
}

/// Returns the TTL of the media that a receiver printed.
fn assert_got(receiver: Program, hops: u8, header_bytes: usize, media: &[Vec<u8>]) {
    let text = String::from_utf8(receiver.output()).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 20);
    for (line, media) in lines.iter().zip(media) {
        let hex: String = media.iter().map(|byte| format!("{byte:02x}")).collect();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], hops.to_string());
        assert_eq!(words[2].len(), hex.len() + 2 * header_bytes);
        assert!(words[2].ends_with(&hex));
    }
}

/// A group that a token for MPEG-TS without RTP names: its source sends that, and nobody's RTP
/// counts.
#[test]
#[ignore = "makes network namespaces, which needs root"]
fn transport_packets_without_rtp_come_in_by_a_group() {
    for (number, (ip, hosts, group)) in FAMILIES.into_iter().enumerate() {
        let network = Network::new(&format!("bare{number}"));
        let joins = [format!("--join={ip}%near"), format!("--join={ip}%far")];
        let _server = network.serve(&[&joins[0], &joins[1]]);
        network.admit("tv", "udp", group);
        network
            .python("b", &sender(group, hosts[2], &rtp(30, 1, 7)))
            .output();
        until("RTP is dropped", || {
            (network.dropped("second_source") == 30).then_some(())
        });
        network
            .python("a", &sender(group, hosts[1], &media()))
            .output();
        let stream = until("all has come", || {
            let stream = network.stream("tv")?;
            (stream["bytes_received"] == 40 * 7 * 188).then_some(stream)
        });
        assert_is_from(&stream, hosts[1]);
        assert_eq!(stream["source"]["protocol"], "udp");
    }
}

/// A group of the link alone, which this server sends to and listens to: it does not hear itself,
/// though its address there is one that only its zone tells.
#[test]
#[ignore = "makes network namespaces, which needs root"]
fn a_group_of_the_link_does_not_hear_the_server_itself() {
    let network = Network::new("self");
    let group = "[ff02::7777]:5004";
    let options = [
        "--join=ff02::7777%near",
        "--rtp-to=ff02::7777",
        "--multicast=1%near",
    ];
    let _server = network.serve(&options);
    network.admit("tv", "http,udp", group);
    network.admit("heard", "udp", group);
    let mut neighbour = network.python("a", &receiver(group, "near", 20));
    await_line(&mut neighbour);
    let media = media();
    let source = network.put(&media);
    assert_got(neighbour, 1, 0, &media);
    assert!(network.stream("heard").is_none(), "it hears itself");
    drop(source);
}
