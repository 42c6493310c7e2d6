//! `--health`: asks the server with these options for `GET /healthz`. For containers that have no
//! HTTP client.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::config::{Config, Listen};

/// Time limit for connecting, and for the response.
const PATIENCE: Duration = Duration::from_secs(2);
/// Beginning of the response of a server that works.
const WELL: &[u8] = b"HTTP/1.1 200 ";

/// Connects to the first listener. Errors name it, and the response if there was one.
pub fn health(config: &Config) -> Result<(), String> {
    let Some(listen) = config.listen.first() else {
        return Err("there is no --listen to connect to".to_owned());
    };
    let (place, answer) = match listen {
        Listen::Tcp(bind) => {
            let address = near(bind.address);
            let other = bind.without_ipv6.map(near);
            let answer = ask_tcp(config, address).or_else(|error| match other {
                Some(other) => ask_tcp(config, other),
                None => Err(error),
            });
            (address.to_string(), answer)
        }
        Listen::Unix(path) => {
            let stream = UnixStream::connect(path);
            let answer = stream.and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                ask(config, stream, IpAddr::V4(Ipv4Addr::LOCALHOST))
            });
            (path.display().to_string(), answer)
        }
    };
    answer.map_err(|error| format!("no healthy server answers at {place}: {error}"))
}

/// Returns the address at which this host reaches a socket of its own.
fn near(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    address
}

fn ask_tcp(config: &Config, address: SocketAddr) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let own = stream.local_addr()?.ip();
    ask(config, stream, own)
}

fn ask(config: &Config, mut stream: impl Read + Write, own: IpAddr) -> io::Result<()> {
    let is_proxy = config
        .core
        .proxies
        .iter()
        .any(|proxies| proxies.contains(own));
    let introduction = if is_proxy { "PROXY UNKNOWN\r\n" } else { "" };
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("{introduction}{request}").as_bytes())?;
    let mut answer = [0; WELL.len()];
    stream.read_exact(&mut answer)?;
    if answer == *WELL {
        Ok(())
    } else {
        Err(io::Error::other("its answer is not 200 OK"))
    }
}
