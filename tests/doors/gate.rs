//! Doors into the gate and the options: each takes any bytes and asserts what must hold for all of
//! them.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

use tollgate::config::{self, Command};
use tollgate::gate::Entry;
use tollgate::gate::journal::{self, Damage, End, Replay};
use tollgate::gate::udp_clients::{self, UdpClient};
use tollgate::gate::{Host, Limits, Subnet, Tokens};
use tollgate::proxy_header;

/// What is said to people is one line of bounded length.
fn assert_line(said: &str) {
    assert!(said.len() < 2000, "too long: {said}");
    assert!(
        !said.chars().any(char::is_control),
        "not one line: {said:?}"
    );
}

fn is_same(one: &UdpClient, other: &UdpClient) -> bool {
    one == other && one.host.as_str() == other.host.as_str()
}

/// What a proxy puts before a connection: however it is cut, it is the same header, and it never
/// waits for more than a bound.
pub fn proxy_header(data: &[u8]) {
    const BYTES_MAX: usize = 16 + 4096;
    let whole = proxy_header::read(data);
    for end in 0..data.len().min(BYTES_MAX) {
        let of_part = proxy_header::read(&data[..end]);
        assert!(
            of_part == whole || of_part == Ok(None),
            "{of_part:?} of {end} bytes"
        );
    }
    match whole {
        Ok(None) => assert!(data.len() < BYTES_MAX, "it waits for ever"),
        Ok(Some(header)) => assert!((1..=data.len()).contains(&header.bytes)),
        Err(detail) => assert_line(detail),
    }
}

/// A `udp-clients` value: what parses prints back and parses again to the same, and repeats add
/// nothing.
pub fn udp_clients(data: &[u8]) {
    const ENTRIES_MAX: usize = 64;
    let Ok(raw) = std::str::from_utf8(data) else {
        return;
    };
    let clients = match udp_clients::parse(raw, ENTRIES_MAX) {
        Ok(clients) => clients,
        Err(bad) => return assert_line(&bad),
    };
    assert!((1..=ENTRIES_MAX).contains(&clients.len()));
    let entries: Vec<String> = clients.iter().map(UdpClient::to_string).collect();
    let printed = entries.join(",");
    let again = udp_clients::parse(&printed, ENTRIES_MAX).expect("what was printed");
    assert_eq!(again.len(), clients.len(), "{printed}");
    assert!(
        clients
            .iter()
            .zip(&again)
            .all(|(one, other)| is_same(one, other)),
        "{printed}"
    );
    let twice = udp_clients::parse(&format!("{printed},{printed}"), 2 * ENTRIES_MAX);
    assert_eq!(twice.expect("what was printed, twice"), clients);
    for client in &clients {
        if let Host::Address { address, .. } = &client.host {
            assert_eq!(address.to_canonical(), *address);
            assert!(!address.is_unspecified());
        }
    }
}

/// A subnet: what parses prints back and parses again to the same, and holds its own first address,
/// in both of the ways to write it.
pub fn subnet(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let subnet = match text.parse::<Subnet>() {
        Ok(subnet) => subnet,
        Err(bad) => return assert_line(&bad.to_string()),
    };
    let printed = subnet.to_string();
    assert_eq!(printed.parse(), Ok(subnet));
    let (first, _) = printed.split_once('/').expect("ADDR/LENGTH");
    let first: IpAddr = first.parse().expect("an address");
    assert!(subnet.contains(first));
    if let IpAddr::V4(first) = first {
        assert!(subnet.contains(IpAddr::V6(first.to_ipv6_mapped())));
    }
}

/// A command line and an environment, separated by NUL bytes. A part that begins with `TOLLGATE_`
/// and has an equals sign is a variable. An error is one line. `--name=value` and `--name value`
/// mean the same.
pub fn options(data: &[u8]) {
    let mut arguments = Vec::new();
    let mut environment = Vec::new();
    for part in data.split(|byte| *byte == 0) {
        let place = part.iter().position(|byte| *byte == b'=');
        match place.and_then(|place| part.split_at_checked(place)) {
            Some((name, value)) if name.starts_with(b"TOLLGATE_") => {
                environment.push((os_string(name), os_string(&value[1..])));
            }
            Some(_) | None => arguments.push(os_string(part)),
        }
    }
    let apart = arguments.iter().flat_map(taken_apart).collect();
    let joined = read(arguments, environment.clone());
    match &joined {
        Ok(_) => assert_eq!(read(apart, environment), joined),
        Err(bad) => assert_line(&bad.to_string()),
    }
    if let Ok(Command::Run(config) | Command::Check(config)) = joined {
        let limits = &config.core.limits;
        assert!(!config.listen.is_empty());
        assert!(limits.stream.buffer_bytes <= limits.buffers_bytes_max);
        assert!(limits.stream.join_back_bytes <= limits.stream.buffer_bytes as u64);
    }
}

fn read(
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
) -> Result<Command, String> {
    config::parse(arguments, environment)
}

fn os_string(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

/// `--name=value` as two arguments, unless the value looks like an option itself; anything else as
/// it is.
fn taken_apart(argument: &OsString) -> Vec<OsString> {
    let bytes = argument.as_bytes();
    let place = bytes.iter().position(|byte| *byte == b'=');
    match place.and_then(|place| bytes.split_at_checked(place)) {
        Some((name, value)) if name.starts_with(b"--") && !value.starts_with(b"=--") => {
            vec![os_string(name), os_string(&value[1..])]
        }
        Some(_) | None => vec![argument.clone()],
    }
}

/// A token journal: in any pieces it reads the same, and the table that it makes comes back from
/// its compacted form. As bytes, and as one change whose checksum is right, which bytes hardly ever
/// have.
pub fn journal(data: &[u8]) {
    read_journal(data);
    let line = journal::sealed(data.to_vec());
    read_journal(&[journal::HEADER, &line].concat());
}

fn read_journal(bytes: &[u8]) {
    let whole = replay(bytes, bytes.len().max(1));
    assert_eq!(replay(bytes, 3), whole);
    let (records, end) = match whole {
        Ok(read) => read,
        Err(damage) => {
            assert!(damage.offset <= bytes.len() as u64);
            return assert_line(&damage.to_string());
        }
    };
    assert_eq!(end.whole_bytes + end.torn_bytes, bytes.len() as u64);
    let tokens = table(records);
    tokens.check();
    let (compacted, _) = replay(&journal::compact(&tokens), 4096).expect("what was written");
    let again = table(compacted);
    assert_eq!(again.time(), tokens.time());
    let shown = |tokens: &Tokens| -> Vec<_> {
        let tuples = tokens.after(0);
        tuples
            .map(|tuple| (tuple.session.clone(), tuple.kind.clone()))
            .collect()
    };
    assert_eq!(shown(&again), shown(&tokens));
}

fn replay(bytes: &[u8], piece: usize) -> Result<(Vec<Entry>, End), Damage> {
    let (mut replay, mut records) = (Replay::default(), Vec::new());
    for mut input in bytes.chunks(piece) {
        while let Some(line) = replay.read(&mut input)? {
            records.push(line);
        }
    }
    Ok((records, replay.finish()?))
}

fn table(records: Vec<Entry>) -> Tokens {
    let mut tokens = Tokens::new(Limits::NONE);
    for record in records {
        tokens.replay(&record);
    }
    tokens
}
