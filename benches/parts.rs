//! The parts that every request or datagram goes through: head parsing, `udp-clients`, the token
//! table.

use std::hint::black_box;
use std::net::SocketAddr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tollgate::gate::{
    self, Direction, Record, RtpTuple, SessionId, Tokens, Transport, udp_clients,
};
use tollgate::http::{HeadReader, Limits};
use tollgate::time::UnixTime;

const CURL: &[u8] = b"GET /stream/demo HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n";

const BROWSER: &[u8] = b"GET /stream/2f1c8a52-5d0e-4c2f-9a53-6e2f0c9a7b11 HTTP/1.1\r\nHost: relay.example:8000\r\n\
Connection: keep-alive\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36\r\n\
Accept-Encoding: identity;q=1, *;q=0\r\nAccept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: video\r\n\
Referer: http://relay.example:8000/\r\nAccept-Language: en-GB,en;q=0.9\r\nRange: bytes=0-\r\n\r\n";

const LIMITS: Limits = Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 64,
    takes_old_sources: false,
};

fn heads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("head");
    for (name, bytes) in [("curl", CURL), ("browser", BROWSER)] {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let head = HeadReader::default().read(black_box(bytes), &LIMITS);
                assert!(matches!(head, Ok(Some((_, length))) if length == bytes.len()));
            });
        });
    }
    group.finish();
}

fn lists(criterion: &mut Criterion) {
    let list = "192.0.2.7:5004,[2001:db8::7]:5004,player-1.example.org:5006,198.51.100.9:6000";
    let mut group = criterion.benchmark_group("udp-clients");
    group.throughput(Throughput::Elements(4));
    group.bench_function("four entries", |bencher| {
        bencher.iter(|| {
            assert_eq!(
                udp_clients::parse(black_box(list), 64).map(|clients| clients.len()),
                Ok(4)
            )
        });
    });
    group.finish();
}

fn tokens(criterion: &mut Criterion) {
    const SESSIONS: u32 = 50_000;
    let mut table = Tokens::new(gate::Limits {
        tokens_max: 100_000,
        udp_clients_per_session_max: 16,
    });
    let session = |number: u32| {
        SessionId::parse(format!("session-{number:08x}").as_bytes()).expect("a good sessionid")
    };
    for number in 0..SESSIONS {
        let address = format!(
            "10.{}.{}.{}:5004",
            number >> 16,
            number >> 8 & 255,
            number & 255
        );
        let client = udp_clients::parse(&address, 1)
            .expect("a good entry")
            .remove(0);
        let addresses = vec![address.parse().expect("an address")];
        table.carry_out(&Record::Set {
            session: session(number),
            http: Some(Direction::Both.into()),
            rtp: vec![RtpTuple {
                client,
                transport: Transport::Rtp(None),
                addresses,
            }],
        });
    }
    let mut group = criterion.benchmark_group("100,000 tokens");
    let (known, unknown) = (session(31_415), session(SESSIONS));
    group.bench_function("a session that is there", |bencher| {
        bencher.iter(|| assert!(table.watch(black_box(&known), UnixTime::default()).is_ok()))
    });
    group.bench_function("a session that is not", |bencher| {
        bencher.iter(|| {
            assert!(
                table
                    .watch(black_box(&unknown), UnixTime::default())
                    .is_err()
            )
        })
    });
    let address: SocketAddr = "10.0.122.183:5004".parse().expect("an address");
    group.bench_function("the sender of a datagram", |bencher| {
        bencher.iter(|| {
            assert_eq!(
                table.sessions_from(black_box(address)).next(),
                Some((&known, Transport::Rtp(None)))
            )
        });
    });
    group.finish();
}

criterion_group!(benches, heads, lists, tokens);
criterion_main!(benches);
