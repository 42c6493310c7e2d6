//! What is done with the media itself: looking for join points in each container, making datagrams,
//! and sending them.

use std::hint::black_box;
use std::net::UdpSocket;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::format::Scanner;
use tollgate::relay::Datagrams;
use tollgate::rtp::{DATAGRAM_BYTES, Packetiser};
use tollgate::server::udp::Udp;

/// Looking at the bytes of each container, in pieces as they arrive; beside it, bytes of no
/// container.
fn scan(criterion: &mut Criterion) {
    let media = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    let mut group = criterion.benchmark_group("scan");
    let mut scan = |name: &str, bytes: &[u8]| {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (mut scanner, mut findings) = (Scanner::default(), Vec::new());
                for piece in bytes.chunks(4096) {
                    scanner.feed(black_box(piece), &mut |finding, _| findings.push(finding));
                }
                assert!(!findings.is_empty());
            });
        });
    };
    for name in [
        "h264.ts",
        "vp8.webm",
        "h264.mkv",
        "h264.mp4",
        "h264.flv",
        "theora.ogg",
        "sound.mp3",
        "sound.aac",
    ] {
        scan(
            name,
            &std::fs::read(media.join(name)).expect("a file of the corpus"),
        );
    }
    scan("no container", &[b'x'; 32 * 1024]);
    group.finish();
}

fn packetise(criterion: &mut Criterion) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media/h264.ts");
    let bytes = std::fs::read(path).expect("a file of the corpus");
    let mut group = criterion.benchmark_group("packetise");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("MPEG-TS", |bencher| {
        let (mut packetiser, mut batch) = (Packetiser::new(1, 2), Vec::new());
        bencher.iter(|| {
            batch.clear();
            packetiser.push(black_box(&bytes), 3, &mut batch);
            assert!(batch.len() > bytes.len() / 2);
        });
    });
    group.finish();
}

/// Bursts of eight datagrams to each client. Nobody reads, so the kernel's whole way is in it and
/// the clients' reading is not.
fn send(criterion: &mut Criterion) {
    const BURST: usize = 8;
    let bytes = vec![0x47; BURST * DATAGRAM_BYTES];
    let mut group = criterion.benchmark_group("send");
    for clients in [1, 100, 1_000] {
        let sockets: Vec<UdpSocket> = (0..clients)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let addresses: Vec<_> = sockets
            .iter()
            .map(|socket| socket.local_addr().expect("its address"))
            .collect();
        for segmentation in ["with", "without"] {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            let mut udp = Udp::new(socket, None).expect("its options");
            if segmentation == "without" {
                udp.give_up_segmentation();
            }
            group.throughput(Throughput::Elements((clients * BURST) as u64));
            let name = format!("{segmentation} segmentation, clients");
            group.bench_with_input(
                BenchmarkId::new(name, clients),
                &addresses,
                |bencher, addresses| {
                    bencher.iter(|| {
                        for to in addresses.chunks(64) {
                            udp.send(black_box(&Datagrams {
                                to,
                                bytes: &bytes,
                                datagram_bytes: DATAGRAM_BYTES,
                            }));
                        }
                    });
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, scan, packetise, send);
criterion_main!(benches);
