//! The relay as its users meet it: one source, 1 / 100 / 1,000 viewers, real sockets over loopback,
//! the server in a thread.
//!
//! The time is that of the whole way, the reading of the viewers included; `fanload` measures the
//! server alone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

#[path = "../tests/support/listening.rs"]
mod listening;

const PIECE_BYTES: usize = 16 * 1024;

fn connect(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("an option");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("an option");
    stream.write_all(request.as_bytes()).expect("a request");
    stream
}

/// Reads until the response's head is over.
fn skip_head(stream: &mut TcpStream) {
    let mut tail = [0; 4];
    while tail != *b"\r\n\r\n" {
        tail.rotate_left(1);
        stream.read_exact(&mut tail[3..]).expect("a response head");
    }
}

fn relay(criterion: &mut Criterion) {
    let server =
        listening::Process::start(env!("CARGO_BIN_EXE_tollgate"), &["--listen=127.0.0.1:0"]);
    let mut group = criterion.benchmark_group("relay over loopback");
    group.sample_size(10);
    for viewers in [1, 100, 1_000] {
        let put = format!(
            "PUT /stream/bench{viewers} HTTP/1.1\r\nHost: h\r\nContent-Type: video/mp2t\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        );
        let mut source = connect(server.http, &put);
        skip_head(&mut source);
        let get = format!("GET /stream/bench{viewers} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut audience: Vec<TcpStream> =
            (0..viewers).map(|_| connect(server.http, &get)).collect();
        audience.iter_mut().for_each(skip_head);
        let mut chunk = format!("{PIECE_BYTES:x}\r\n").into_bytes();
        chunk.resize(chunk.len() + PIECE_BYTES, b'x');
        chunk.extend_from_slice(b"\r\n");
        let mut received = vec![0; chunk.len()];
        group.throughput(Throughput::Bytes((PIECE_BYTES * viewers) as u64));
        group.bench_with_input(
            BenchmarkId::new("16 KiB to viewers", viewers),
            &viewers,
            |bencher, _| {
                bencher.iter(|| {
                    source.write_all(&chunk).expect("the source is read");
                    for viewer in &mut audience {
                        // A piece arrives as one chunk, or as several when it was read in parts:
                        // each adds its framing.
                        let mut content = 0;
                        while content < PIECE_BYTES {
                            let line = read_line(viewer);
                            let size = usize::from_str_radix(&line, 16).expect("a chunk's size");
                            viewer
                                .read_exact(&mut received[..size + 2])
                                .expect("a chunk");
                            content += size;
                        }
                    }
                });
            },
        );
    }
    group.finish();
}

fn read_line(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte).expect("a chunk's line");
        line.push(char::from(byte[0]));
    }
    line.trim_end().to_owned()
}

/// Time from a late viewer's GET to its first byte of media, with the connection.
fn join(criterion: &mut Criterion) {
    let server =
        listening::Process::start(env!("CARGO_BIN_EXE_tollgate"), &["--listen=127.0.0.1:0"]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/h264.ts");
    let media = std::fs::read(path).expect("a file of the corpus");
    let put = "PUT /stream/join HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    let mut source = connect(server.http, put);
    skip_head(&mut source);
    source
        .write_all(format!("{:x}\r\n", media.len()).as_bytes())
        .expect("the source is read");
    source.write_all(&media).expect("the source is read");
    criterion.bench_function("GET to the first byte of media", |bencher| {
        bencher.iter(|| {
            let mut viewer = connect(server.http, "GET /stream/join HTTP/1.1\r\nHost: h\r\n\r\n");
            skip_head(&mut viewer);
            read_line(&mut viewer);
            let mut first = [0];
            viewer.read_exact(&mut first).expect("media");
            assert_eq!(first, [0x47]);
        });
    });
}

criterion_group!(benches, relay, join);
criterion_main!(benches);
