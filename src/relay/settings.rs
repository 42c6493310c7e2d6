//! What the operator chose, as the core needs it, and each part's bounds. The options write into it
//! (`config`), over a default that leaves all bounds at 0.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

use super::ReportLimits;
use crate::gate::{Host, Join, Subnet};
use crate::{gate, http, stream};

/// What the operator chose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The subnets that may call the API. None: tokens are off.
    pub token_servers: Vec<Subnet>,
    /// Proxies whose connections begin with a PROXY protocol header.
    pub proxies: Vec<Subnet>,
    /// Proxies that say in each request's fields whose it is.
    pub forwarders: Vec<Subnet>,
    /// Names under which the API may be called, besides addresses and `localhost`.
    pub hostnames: Vec<String>,
    /// The address in links of the pages, with a slash at its end. Empty: the one by which the page
    /// was reached.
    pub public_url: String,
    /// Where the server listens for HTTP. A socket in the file system counts as 127.0.0.1:80.
    pub listeners: Vec<SocketAddr>,
    /// Where sources may come from. None: from anywhere.
    pub publish_from: Vec<Subnet>,
    /// Hosts that may read `/metrics`, besides the ones that may call the API. They hold without
    /// those, too.
    pub metrics_from: Vec<Subnet>,
    /// Where UDP clients may be. None: anywhere, but groups nowhere.
    pub rtp_to: Vec<Subnet>,
    /// The groups whose datagrams come in.
    pub joins: Vec<Join>,
    /// Whose pages may watch: the origin (or `*`), and the fields that say so.
    pub cors: Vec<(String, Fields)>,
    /// Viewers' bodies end with the connection.
    pub is_close_delimited: bool,
    /// Sources may come as Icecast's do.
    pub admits_icecast: bool,
    /// Streams are cut into segments, and there are playlists of them.
    pub serves_hls: bool,
    /// Streams are had in other containers.
    pub remuxes: bool,
    /// Requests are logged.
    pub has_access_log: bool,
    /// A second source replaces the first.
    pub takes_over: bool,
    /// The relays from which streams are fetched that do not run here.
    pub origins: Vec<OriginUrl>,
    /// Relays whose lists are this one's, too.
    pub peers: Vec<Peer>,
    /// The origins decide who may watch their streams.
    pub asks_origin: bool,
    /// The bounds.
    pub limits: Limits,
    /// The key of all that is drawn: names, nonces, source identifiers, first sequence numbers.
    pub random_key: u128,
    /// Seconds since 1970 at [`Instant::START`].
    pub started_unix_seconds: u64,
}

impl Settings {
    /// Whether datagrams may go there; to a group only where it is named, so that nobody's network
    /// is flooded because it was not thought of. That one is listened to names it for nothing more.
    pub(super) fn may_receive(&self, address: IpAddr) -> bool {
        let is_in = self.rtp_to.iter().any(|subnet| subnet.contains(address));
        is_in || (self.rtp_to.is_empty() && !address.is_multicast())
    }
}

/// The bounds of the core; each part below it has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Maximal number of connections. A few more are accepted to be refused, or to call the API.
    pub connections_max: usize,
    /// Connections from one address.
    pub connections_per_host_max: usize,
    /// Streams that run at once.
    pub streams_max: usize,
    /// Bytes that the buffers of all streams may take together.
    pub buffers_bytes_max: usize,
    /// How long a request's head, or the payload of an API call, may take.
    pub head_time: Duration,
    /// How long a connection is kept between requests.
    pub keep_alive_time: Duration,
    /// How long a source may be silent.
    pub source_idle_time: Duration,
    /// Bytes a second that a source must reach, on the average over `source_idle_time`.
    pub body_bytes_per_second_min: u64,
    /// How long a viewer waits for a session that does not run yet.
    pub wait_time: Duration,
    /// How long an origin may take to be found, connected to and heard.
    pub origin_time: Duration,
    /// How long a pull outlives its last viewer.
    pub origin_idle_time: Duration,
    /// How long a stream that has lost its source waits for another.
    pub hold_time: Duration,
    /// How long small pieces wait to be written together, at most.
    pub bundle_time: Duration,
    /// How long a segment is at least.
    pub hls_segment_time: Duration,
    /// Time after which a client that takes none of its bytes is disconnected.
    pub viewer_stall_time: Duration,
    /// Request heads.
    pub http: http::Limits,
    /// Each stream.
    pub stream: stream::Limits,
    /// The token table.
    pub tokens: gate::Limits,
    /// The log.
    pub report: ReportLimits,
}

/// Fields of a response head that are made once, at the start.
pub type Fields = &'static [(&'static str, &'static str)];

/// Of answers that are not the same for the pages of every site.
pub const VARIES: Fields = &[("Vary", "Origin")];

/// Another relay, from which streams are fetched: `http://HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    /// An address, or a name that is yet to be looked up.
    pub host: Host,
    /// 1 to 65535.
    pub port: NonZeroU16,
    /// What stands before `/stream/…`: empty, or beginning with a slash and not ending with one.
    pub path: String,
}

impl OriginUrl {
    /// Where it is, unless its name must be looked up.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Address { address, .. } => Some(SocketAddr::new(*address, self.port.get())),
            Host::Name(_) => None,
        }
    }
}

impl Display for OriginUrl {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Another relay whose lists are this one's, too: where it is, and its URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    address: SocketAddr,
    url: OriginUrl,
}

impl Peer {
    /// `None`: its host is a name, and would have to be looked up.
    pub fn new(url: &OriginUrl) -> Option<Peer> {
        Some(Peer {
            address: url.address()?,
            url: url.clone(),
        })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it is called.
    pub fn url(&self) -> &OriginUrl {
        &self.url
    }
}
