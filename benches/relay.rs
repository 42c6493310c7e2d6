//! The core in memory: what the relay itself costs beside the system calls. One source, 1 to 10,000
//! viewers, no socket.

use std::net::SocketAddr;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::config::Config;
use tollgate::gather::Gather;
use tollgate::relay::{ConnectionId, Outgoing, Relay, write_next};
use tollgate::time::Instant;

const PIECE_BYTES: usize = 16 * 1024;

/// A running server with a source and its viewers.
struct Scene {
    relay: Relay,
    source: ConnectionId,
    now: Instant,
    chunk: Vec<u8>,
}

impl Scene {
    fn new(viewers: usize) -> Scene {
        let mut relay = Relay::new(Config::default().settings(viewers + 10, 0, 0));
        let now = Instant::START;
        let mut connect = |number: usize, request: &str| {
            let address = SocketAddr::from((
                [10, 0, (number >> 8) as u8, number as u8],
                40_000 + (number >> 16) as u16,
            ));
            let id = relay.accepted(address, now).expect("room for another");
            relay.received(id, request.as_bytes(), now);
            id
        };
        let put = "PUT /stream/demo HTTP/1.1\r\nHost: h\r\nContent-Type: video/mp2t\r\nTransfer-Encoding: chunked\r\n\r\n";
        let source = connect(0, put);
        for number in 1..=viewers {
            connect(number, "GET /stream/demo HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        let mut chunk = format!("{PIECE_BYTES:x}\r\n").into_bytes();
        chunk.extend((0..PIECE_BYTES).map(|byte| byte as u8 | 0x80));
        chunk.extend_from_slice(b"\r\n");
        let mut scene = Scene {
            relay,
            source,
            now,
            chunk,
        };
        scene.write();
        scene
    }

    /// One turn: the source sends a piece, every viewer gets it.
    fn turn(&mut self) -> usize {
        self.now = self.now + Duration::from_millis(10);
        assert!(self.relay.bytes_wanted(self.source) >= self.chunk.len());
        self.relay.received(self.source, &self.chunk, self.now);
        self.write()
    }

    fn write(&mut self) -> usize {
        let mut written = 0;
        let mut write = |_, gather: &Gather<'_>| {
            written += gather.bytes();
            Outgoing::Whole(gather.bytes())
        };
        while write_next(&mut self.relay, self.now, &mut write).is_some() {}
        while self.relay.next_action().is_some() {}
        written
    }
}

fn relay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("relay in memory");
    group.sample_size(20);
    for viewers in [1, 100, 1_000, 10_000] {
        let mut scene = Scene::new(viewers);
        group.throughput(Throughput::Elements(viewers as u64));
        group.bench_with_input(
            BenchmarkId::new("16 KiB to viewers", viewers),
            &viewers,
            |bencher, viewers| {
                bencher.iter(|| assert!(scene.turn() >= PIECE_BYTES * viewers));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, relay);
criterion_main!(benches);
