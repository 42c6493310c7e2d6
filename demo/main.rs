//! A first look: starts the server with its gate up, gives itself a token, and publishes a small
//! clip as a live stream without end.
//!
//!     cargo demo [ADDR:PORT]
//!
//! Then open the page whose address it prints.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use tollgate::config::{self, Command};
use tollgate::server;

/// Four seconds of picture and sound, made by `ffmpeg -f lavfi -i testsrc2=size=640x360:rate=25 -f
/// lavfi -i 'aevalsrc=0.15*sin(2*PI*330*t)*exp(-mod(t\,1)*6):s=44100' -t 4 -c:v libvpx -b:v 400k -g
/// 50 -deadline good -cpu-used 2 -c:a libvorbis -b:a 32k -f webm -live 1 clip.webm`.
const CLIP: &[u8] = include_bytes!("clip.webm");
const CLIP_TIME: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    let address = std::env::args().nth(1);
    let address = address.unwrap_or_else(|| "127.0.0.1:8000".to_owned());
    if matches!(address.as_str(), "-V" | "--version") {
        println!("tollgate-demo {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    if matches!(address.as_str(), "-h" | "--help") {
        println!(
            "tollgate-demo [ADDR:PORT] plays a clip as an endless live stream. Without ADDR:PORT, the server listens on 127.0.0.1:8000."
        );
        return ExitCode::SUCCESS;
    }
    match address.parse().map(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("'{address}' is not an address; give ADDR:PORT, such as 127.0.0.1:8003");
            ExitCode::from(2)
        }
    }
}

fn run(address: SocketAddr) -> io::Result<()> {
    // Whoever listens there already is not this server: no stream is for it.
    if let Err(error) = TcpListener::bind(address) {
        let other = "give another address, such as tollgate-demo 127.0.0.1:8003";
        return Err(io::Error::other(format!(
            "cannot listen on {address}: {error}; {other}"
        )));
    }
    let options = [
        "--token-server=127.0.0.1/32".to_owned(),
        format!("--listen={address}"),
        "--rtp=off".to_owned(),
    ];
    let config = match config::parse(options, []) {
        Ok(Command::Run(config)) => config,
        Ok(_) => return Ok(()),
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    let serving = thread::spawn(move || server::run(&config));
    while TcpStream::connect(address).is_err() {
        if serving.is_finished() {
            let error = serving.join().expect("it does not panic").err();
            return Err(io::Error::other(
                error.map_or_else(String::new, |error| error.to_string()),
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
    add_token(address)?;
    println!(
        "to watch: http://{address}/watch/demo   the operator's page: http://{address}/   (Ctrl-C ends it)"
    );
    thread::spawn(move || publish(address));
    serving
        .join()
        .expect("it does not panic")
        .map_err(|error| io::Error::other(error.to_string()))
}

fn add_token(address: SocketAddr) -> io::Result<()> {
    let mut connection = TcpStream::connect(address)?;
    write!(
        connection,
        "POST /api/add-token?type=http&sessionid=demo HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 20") {
        Ok(())
    } else {
        Err(io::Error::other(answer))
    }
}

/// Publishes until the server ends the stream, and says what it said.
fn publish(address: SocketAddr) -> io::Result<()> {
    let mut connection = TcpStream::connect(address)?;
    write!(
        connection,
        "PUT /stream/demo HTTP/1.1\r\nHost: {address}\r\nContent-Type: video/webm\r\nTransfer-Encoding: chunked\r\n\r\n"
    )?;
    let ended = send_for_ever(&mut connection);
    let mut status = String::new();
    BufReader::new(connection).read_line(&mut status)?;
    println!("the stream has ended: {}", status.trim_end());
    ended
}

fn send_for_ever(connection: &mut TcpStream) -> io::Result<()> {
    let clip = Clip::read(CLIP);
    let begun = Instant::now();
    send(connection, clip.header)?;
    for round in 0.. {
        let round_time = CLIP_TIME * round;
        for cluster in &clip.clusters {
            send(connection, &cluster_head(round_time + cluster.time))?;
            for (time, block) in &cluster.blocks {
                let due = round_time + *time;
                thread::sleep(due.saturating_sub(begun.elapsed()));
                send(connection, block)?;
            }
        }
    }
    Ok(())
}

/// One chunk.
fn send(connection: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    connection.write_all(&chunk)
}

/// The clip, taken apart.
struct Clip {
    /// All before the first cluster.
    header: &'static [u8],
    clusters: Vec<Cluster>,
}

struct Cluster {
    time: Duration,
    /// Each with its time.
    blocks: Vec<(Duration, &'static [u8])>,
}

const SEGMENT: u32 = 0x1853_8067;
const CLUSTER: u32 = 0x1f43_b675;
const TIMESTAMP: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;

impl Clip {
    /// Walks the elements of a file that is known to be well-formed.
    fn read(bytes: &'static [u8]) -> Clip {
        let mut clip = Clip {
            header: &[],
            clusters: Vec::new(),
        };
        let mut at = 0;
        while at < bytes.len() {
            let (id, id_bytes) = number(&bytes[at..], true);
            let (size, size_bytes) = number(&bytes[at + id_bytes..], false);
            let body = at + id_bytes + size_bytes;
            if id as u32 == CLUSTER {
                if clip.clusters.is_empty() {
                    clip.header = &bytes[..at];
                }
                clip.clusters.push(Cluster {
                    time: Duration::ZERO,
                    blocks: Vec::new(),
                });
            }
            if matches!(id as u32, SEGMENT | CLUSTER) {
                at = body;
                continue;
            }
            let end = body + size as usize;
            if let Some(cluster) = clip.clusters.last_mut() {
                let content = &bytes[body..end];
                match id as u32 {
                    TIMESTAMP => {
                        let milliseconds = content
                            .iter()
                            .fold(0, |time, byte| time << 8 | u64::from(*byte));
                        cluster.time = Duration::from_millis(milliseconds);
                    }
                    SIMPLE_BLOCK => {
                        // Behind the track's number, of one byte; none of these blocks is before
                        // its cluster.
                        let within = u64::from(u16::from_be_bytes([content[1], content[2]]));
                        let time = cluster.time + Duration::from_millis(within);
                        cluster.blocks.push((time, &bytes[at..end]));
                    }
                    _ => {}
                }
            }
            at = end;
        }
        clip
    }
}

/// An EBML number, with or without its marker bit, and its length.
fn number(bytes: &[u8], keeps_marker: bool) -> (u64, usize) {
    let length = bytes[0].leading_zeros() as usize + 1;
    let value = bytes[..length]
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    let marker = if keeps_marker { 0 } else { 1 << (7 * length) };
    (value & !marker, length)
}

/// A cluster of unknown size that begins at `time`.
fn cluster_head(time: Duration) -> Vec<u8> {
    let mut head = CLUSTER.to_be_bytes().to_vec();
    head.extend([0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    head.extend([TIMESTAMP as u8, 0x88]);
    head.extend((time.as_millis() as u64).to_be_bytes());
    head
}
