//! What publishers send, for tests.

use super::amf::Value;

/// A message in chunks of this size. `chunk_stream`: below 64.
pub fn message(
    (chunk_stream, kind, time): (u8, u8, u32),
    body: &[u8],
    chunk_bytes: usize,
) -> Vec<u8> {
    let extended = (time >= 0xff_ffff).then(|| time.to_be_bytes());
    let field = time.min(0xff_ffff).to_be_bytes();
    let mut bytes = vec![chunk_stream];
    bytes.extend_from_slice(&field[1..]);
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, 1, 0, 0, 0]);
    bytes.extend(extended.into_iter().flatten());
    for (index, chunk) in body.chunks(chunk_bytes).enumerate() {
        if index > 0 {
            bytes.push(0xc0 | chunk_stream);
            bytes.extend(extended.into_iter().flatten());
        }
        bytes.extend_from_slice(chunk);
    }
    bytes
}

/// A command without properties, with this text.
pub fn command(name: &str, id: f64, text: Option<&str>) -> Vec<u8> {
    let mut body = Vec::new();
    let values = [Value::Text(name), Value::Number(id), Value::Null];
    let values = values.into_iter().chain(text.map(Value::Text));
    values.for_each(|value| value.push(&mut body));
    message((3, 20, 0), &body, 128)
}

/// The command `connect`.
pub fn connect(app: &str, url: &str) -> Vec<u8> {
    let mut body = Vec::new();
    let properties = [
        ("app", Value::Text(app)),
        ("tcUrl", Value::Text(url)),
        ("fpad", Value::Number(0.0)),
    ];
    let properties = Value::Object(&properties);
    let values = [Value::Text("connect"), Value::Number(1.0), properties];
    values.iter().for_each(|value| value.push(&mut body));
    message((3, 20, 0), &body, 128)
}

/// The handshake.
pub fn handshake() -> Vec<u8> {
    let mut bytes = vec![3];
    bytes.extend((0..2 * 1536).map(|number| number as u8));
    bytes
}

/// What follows the handshake, up to the request for this stream.
pub fn asking(name: &str) -> Vec<u8> {
    [
        connect("live", "rtmp://relay.example:1935/live"),
        command("createStream", 2.0, None),
        command("publish", 3.0, Some(name)),
    ]
    .concat()
}
